"""Reads the events of ONNX Runtime's profiler, and computes medians over the runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from hlo2onnx.runtime.profiling.results import Spread

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
        for event, time in zip(run.events, _own_times(run.events), strict=True):
            name = event["name"].removesuffix(_SUFFIX)
            times[name][index] += time / 1e3
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
