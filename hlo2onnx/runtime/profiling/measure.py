"""Runs a model with ONNX Runtime's profiler, and adds up the times."""

from __future__ import annotations

import json
import platform
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from hlo2onnx.errors import VerificationError
from hlo2onnx.runtime.paths import check_count
from hlo2onnx.runtime.profiling.events import (
    Measured,
    Run,
    measured,
    providers,
    runs_of,
    spread,
    without_profiler,
)
from hlo2onnx.runtime.profiling.optimized_nodes import ModelNode, Origins, origins_in
from hlo2onnx.runtime.profiling.results import UNKNOWN, NodeTime, Profile, Share
from hlo2onnx.runtime.sessions import OrtProgram, Providers, onnxruntime

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
