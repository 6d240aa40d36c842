"""Runs a model with ONNX Runtime's profiler, and adds up the times."""

from __future__ import annotations

import json
import platform
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from hlo2onnx.errors import UsageError, VerificationError
from hlo2onnx.runtime.profiling.events import Measured, Run, measured, providers, runs_of, spread
from hlo2onnx.runtime.profiling.optimized_nodes import ModelNode, Origins, origins_in
from hlo2onnx.runtime.profiling.results import UNKNOWN, NodeTime, Profile, Share
from hlo2onnx.runtime.sessions import OrtProgram, Providers, onnxruntime

WARM_UP = 3


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
    for name, count, least in (("runs", runs, 1), ("depth", depth, 1), ("threads", threads, 0)):
        if not isinstance(count, int) or count < least:
            raise UsageError(f"{name}={count!r} is not a number of at least {least}")
    with tempfile.TemporaryDirectory() as folder:
        optimized = Path(folder) / "optimized.onnx"
        start = partial(
            OrtProgram,
            model,
            threads=threads,
            libraries=libraries,
            profile=str(Path(folder) / "profile"),
            denormals=denormals,
            providers=providers,
        )
        try:
            program = start(optimized=str(optimized))
        except VerificationError:  # some providers compile nodes, which cannot be written
            program = start()
        for _ in range(WARM_UP + runs):
            program(feeds)
        events = json.loads(Path(program.session.end_profiling()).read_text(encoding="utf-8"))
        origins = Origins(nodes)
        known = origins_in(optimized, origins)
    found = runs_of(events)
    kept = found[WARM_UP:] or found[-1:]
    if not kept:
        raise VerificationError(
            "one run has more events than ONNX Runtime's profiler records (a million)"
        )

    def finder(name: str) -> ModelNode | None:
        return known.get(name) or origins.named(name)

    return _profile(kept, runs, threads, depth, title, finder)


Finder = Callable[[str], ModelNode | None]
"""Finds the node of the model by the runtime's name of a node."""


def _profile(
    runs: Sequence[Run], wanted: int, threads: int, depth: int, title: str, finder: Finder
) -> Profile:
    found = measured(runs)
    total = max(sum(spread(node.times).median for node in found), 1e-9)
    nodes = [_timed(node, total, finder(node.name)) for node in found]
    nodes.sort(key=lambda node: -node.milliseconds)
    notes = []
    if len(runs) < wanted:
        notes.append(
            f"only {len(runs)} of {wanted} runs: ONNX Runtime's profiler records a million events"
        )
    return Profile(
        total,
        _shares(nodes, total, lambda node: node.operator),
        _shares(nodes, total, lambda node: "/".join(node.scope[:depth])),
        _shares(nodes, total, lambda node: node.source),
        nodes,
        title=title,
        device=f"{', '.join(providers(runs))} ({processor()})",
        threads=threads,
        runtime=f"ONNX Runtime {onnxruntime().__version__}",
        runs=len(runs),
        warm_up=WARM_UP,
        run=spread(np.array([run.duration / 1e3 for run in runs])),
        notes=notes,
    )


def _timed(node: Measured, total: float, origin: ModelNode | None) -> NodeTime:
    time = spread(node.times)
    scope = tuple(node.name.split("/")[:-1])
    return NodeTime(
        origin.name if origin else node.name,
        node.operator,
        origin.scope if origin else scope,
        origin.source if origin else "",
        time.median,
        time.low,
        time.high,
        time.median / total,
        node.trips,
    )


def _shares(nodes: Sequence[NodeTime], total: float, key: Callable[[NodeTime], str]) -> list[Share]:
    """The times of groups of nodes, the longest first."""
    groups: dict[str, list[NodeTime]] = defaultdict(list)
    for node in nodes:
        groups[key(node) or UNKNOWN].append(node)
    shares = []
    for name, group in groups.items():
        time = sum(node.milliseconds for node in group)
        low, high = sum(node.low for node in group), sum(node.high for node in group)
        shares.append(Share(name, time, time / total, sum(node.trips for node in group), low, high))
    return sorted(shares, key=lambda share: -share.milliseconds)


def processor() -> str:
    """The name of this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
