"""Runs a model with ONNX Runtime's profiler, and adds up the times."""

from __future__ import annotations

import json
import platform
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hlo2onnx.errors import VerificationError
from hlo2onnx.runtime.paths import check_count
from hlo2onnx.runtime.profiling.optimized_nodes import ModelNode, Origins, origins_in
from hlo2onnx.runtime.profiling.results import UNKNOWN, NodeTime, Profile, Share, Spread
from hlo2onnx.runtime.sessions import OrtProgram, Providers, onnxruntime

_SUFFIX = "_kernel_time"

Event: TypeAlias = Mapping[str, Any]
"""One event of the runtime's profile, from JSON."""


@dataclass(frozen=True)
class Run:
    """One run of the model: its microseconds, and its events of nodes in order."""

    duration: float
    events: Sequence[Event]


@dataclass(frozen=True)
class Measured:
    """One node of the optimized model.

    Attributes:
        name: The runtime's name of the node.
        operator: The operator.
        times: Milliseconds in each run, without the nodes in bodies.
        trips: Executions in one run, the mean.
    """

    name: str
    operator: str
    times: np.ndarray
    trips: float


def runs_of(events: Iterable[Event]) -> list[Run]:
    """The complete runs. The runtime records a run at its end, and a million events at most."""
    ordered = sorted(events, key=lambda event: (event["ts"], -event["dur"]))
    nodes = [
        event for event in ordered if event["cat"] == "Node" and event["name"].endswith(_SUFFIX)
    ]
    starts = np.array([event["ts"] for event in nodes])
    found = []
    for run in (event for event in ordered if event["name"] == "model_run"):
        first, last = np.searchsorted(starts, [run["ts"], run["ts"] + run["dur"]])
        found.append(Run(float(run["dur"]), nodes[first:last]))
    return found


def measured(runs: Sequence[Run]) -> list[Measured]:
    """The times of each node in the runs."""
    times: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(len(runs)))
    counts: Counter[str] = Counter()
    operators: dict[str, str] = {}
    for index, run in enumerate(runs):
        for event, own in zip(run.events, _own_times(run.events), strict=True):
            name = event["name"].removesuffix(_SUFFIX)
            times[name][index] += own / 1e3
            counts[name] += 1
            operators[name] = event["args"]["op_name"]
    return [
        Measured(name, operators[name], found, counts[name] / len(runs))
        for name, found in times.items()
    ]


def spread(times: np.ndarray) -> Spread:
    """Median and quartiles of times."""
    low, median, high = np.quantile(times, [0.25, 0.5, 0.75])
    return Spread(float(median), float(low), float(high))


def providers(runs: Sequence[Run]) -> list[str]:
    """The execution providers that ran nodes, the most used first."""
    used = Counter(event["args"].get("provider", "") for run in runs[:1] for event in run.events)
    return [name.removesuffix("ExecutionProvider") for name, _ in used.most_common() if name]


def without_profiler(nodes: Sequence[Measured], run: float) -> tuple[list[Measured], float]:
    """The nodes without what the profiler adds to each execution, and these milliseconds.

    The profiler adds about the same time to each execution of a node. It is estimated so that all
    nodes together take as long as a run without the profiler, but at most as the time of the
    cheapest node.

    Args:
        nodes: The nodes, with the time of the profiler.
        run: Milliseconds of a run without the profiler.
    """
    medians = [spread(node.times).median for node in nodes]
    executions = sum(node.trips for node in nodes)
    if not executions:
        return list(nodes), 0.0
    cheapest = min(median / node.trips for median, node in zip(medians, nodes, strict=True))
    added = max(min((sum(medians) - run) / executions, cheapest), 0.0)
    return [
        replace(node, times=np.maximum(node.times - added * node.trips, 0)) for node in nodes
    ], added


def _own_times(events: Sequence[Event]) -> list[float]:
    """The microseconds of each event without the events inside it."""
    bodies: dict[int, list[Event]] = defaultdict(list)
    open_events: list[int] = []
    for index, event in enumerate(events):
        while open_events and _end(events[open_events[-1]]) <= event["ts"]:
            open_events.pop()
        if open_events:
            bodies[open_events[-1]].append(event)
        open_events.append(index)
    return [
        _control_time(event, bodies[index]) if index in bodies else float(event["dur"])
        for index, event in enumerate(events)
    ]


def _control_time(event: Event, body: Sequence[Event]) -> float:
    """The time of a Loop, Scan or If before, after and between its trips.

    Between the nodes of one trip, nearly all of the time is the profiler's.
    """
    time = body[0]["ts"] - event["ts"] + _end(event) - _end(body[-1])
    for last, following in pairwise(body):
        if following["name"] == body[0]["name"]:  # a new trip
            time += following["ts"] - _end(last)
    return max(float(time), 0.0)


def _end(event: Event) -> float:
    return float(event["ts"] + event["dur"])


WARM_UP = 3
_EQUAL = 1.005
"""Node times up to this multiple of the run time count as equal to it."""


def profile(
    model: bytes | str,
    feeds: Mapping[str, np.ndarray],
    *,
    runs: int = 20,
    threads: int = 0,
    depth: int = 2,
    libraries: Sequence[str] = (),
    denormals: str = "keep",
    providers: Providers | None = None,
    nodes: Sequence[ModelNode] = (),
    title: str = "model",
) -> Profile:
    """Runs a model several times with the runtime's profiler.

    Args:
        model: Serialized model, or the path of a model with external data.
        feeds: An array for each input.
        runs: Count of runs to take the median of, after three to warm up.
        threads: Count of intra-op threads; 0 for the runtime's default.
        depth: Scopes are grouped by this many leading components.
        libraries: Shared libraries with custom operators.
        denormals: "keep" or "flush", as in `hlo2onnx.options.Options`.
        providers: Execution providers of the runtime. Default: the CPU.
        nodes: The nodes of the model. Without them, scopes are those in the runtime's names.
        title: Name of the program.

    Raises:
        UsageError: `runs` or `depth` is less than 1, or `threads` is negative.
        VerificationError: ONNX Runtime is not installed, or does not run the model.
    """
    check_count("runs", runs, 1)
    check_count("depth", depth, 1)
    check_count("threads", threads, 0)
    start = partial(
        OrtProgram,
        model,
        threads=threads,
        libraries=libraries,
        denormals=denormals,
        providers=providers,
    )
    plain = _seconds(start(), feeds, runs)
    recorded, finder = _recorded(start, feeds, runs, nodes)
    found = _profile(recorded, 1e3 * plain, depth, finder)
    return replace(found, title=title, threads=threads, notes=notes_on(found, runs))


def notes_on(found: Profile, runs: int) -> list[str]:
    """What a reader of a profile of so many wanted runs should know.

    The node times can add up to more than a run takes: `without_profiler` subtracts the same time
    from each execution, and no more than the cheapest node takes.
    """
    notes = []
    if found.runs < runs:
        notes.append(
            f"only {found.runs} of {runs} runs: ONNX Runtime's profiler records a million events"
        )
    if found.milliseconds > _EQUAL * found.run.median:
        notes.append(
            "the nodes together take longer than a run: the profiler slows some of them more than"
            " others, and no more than the time of the cheapest is subtracted from each"
        )
    return notes


Finder = Callable[[str], ModelNode | None]
"""Finds the node of the model by the runtime's name of a node."""


def _recorded(
    start: Callable[..., OrtProgram],
    feeds: Mapping[str, np.ndarray],
    runs: int,
    nodes: Sequence[ModelNode],
) -> tuple[list[Run], Finder]:
    """The runs that the profiler records.

    Raises:
        VerificationError: ONNX Runtime does not run the model, or a run has too many events.
    """
    origins = Origins(nodes)
    with tempfile.TemporaryDirectory() as folder:
        optimized = Path(folder) / "optimized.onnx"
        start = partial(start, profile=str(Path(folder) / "profile"))
        try:
            program = start(optimized=str(optimized))
        except VerificationError:  # some providers compile nodes, which cannot be written
            program = start()
        _seconds(program, feeds, runs)
        events = json.loads(Path(program.session.end_profiling()).read_text(encoding="utf-8"))
        known = origins_in(optimized, origins)
    found = runs_of(events)
    if not found:
        raise VerificationError(
            "one run has more events than ONNX Runtime's profiler records (a million)"
        )
    return found[WARM_UP:] or found[-1:], lambda name: known.get(name) or origins.named(name)


def _seconds(program: OrtProgram, feeds: Mapping[str, np.ndarray], runs: int) -> np.ndarray:
    """The time of each run, after some to warm up."""
    times = [time.perf_counter()]
    for _ in range(WARM_UP + runs):
        program(feeds)
        times.append(time.perf_counter())
    return np.diff(times)[WARM_UP:]


def _profile(runs: Sequence[Run], plain: np.ndarray, depth: int, finder: Finder) -> Profile:
    """The profile of some runs.

    Args:
        runs: The runs with the profiler.
        plain: Milliseconds of runs without it.
        depth: Scopes are grouped by this many leading components.
        finder: Finds the nodes of the model.
    """
    run = spread(plain)
    found, added = without_profiler(measured(runs), run.median)
    total = max(sum(spread(node.times).median for node in found), 1e-9)
    nodes = [_timed(node, total, finder(node.name)) for node in found]
    nodes.sort(key=lambda node: -node.milliseconds)
    return Profile(
        total,
        _shares(nodes, total, lambda node: node.operator),
        _shares(nodes, total, lambda node: "/".join(node.scope[:depth])),
        _shares(nodes, total, lambda node: node.source),
        nodes,
        device=f"{', '.join(providers(runs))} ({processor()})",
        runtime=f"ONNX Runtime {onnxruntime().__version__}",
        runs=len(runs),
        warm_up=WARM_UP,
        run=run,
        run_with_profiler=spread(np.array([each.duration / 1e3 for each in runs])),
        added=1e3 * added,
    )


def _timed(node: Measured, total: float, origin: ModelNode | None) -> NodeTime:
    times = spread(node.times)
    scope = tuple(node.name.split("/")[:-1])
    return NodeTime(
        origin.name if origin else node.name,
        node.operator,
        origin.scope if origin else scope,
        origin.source if origin else "",
        times.median,
        times.low,
        times.high,
        times.median / total,
        node.trips,
    )


def _shares(nodes: Sequence[NodeTime], total: float, key: Callable[[NodeTime], str]) -> list[Share]:
    """The times of groups of nodes, the longest first."""
    groups: dict[str, list[NodeTime]] = defaultdict(list)
    for node in nodes:
        groups[key(node) or UNKNOWN].append(node)
    shares = []
    for name, group in groups.items():
        whole = sum(node.milliseconds for node in group)
        low, high = sum(node.low for node in group), sum(node.high for node in group)
        count = sum(node.trips for node in group)
        shares.append(Share(name, whole, whole / total, count, low, high))
    return sorted(shares, key=lambda share: -share.milliseconds)


def processor() -> str:
    """The name of this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
