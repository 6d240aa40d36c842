"""How many nodes ONNX Runtime runs in a call: the cost of loops over small arrays.

A node of a body counts once for each trip. Counts do not depend on the load of the machine.
`program.profile` tells where they come from.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from tools.bench.benchmark import Benchmark
from tools.zoo.program import load_all, lowered

COLUMNS = ("nodes", "executions")
FIGURE = "executions"


def executions(profile: Any) -> int:
    """How many nodes ran in a call, by a `Profile`."""
    return round(sum(node.trips for node in profile.nodes))


def node_trips(profile: Any) -> Counter[str]:
    """How often the nodes of a profile ran in a call, by name."""
    counts = Counter[str]()
    for node in profile.nodes:
        counts[node.name] = max(counts[node.name], node.trips)
    return counts


def measure(name: str, benchmark: Benchmark, given: argparse.Namespace) -> dict[str, str]:
    """Runs a program with ONNX Runtime's profiler."""
    import hlo2onnx

    program = hlo2onnx.translate(benchmark.build())
    profile = program.profile(*load_all()[name].build()[1], runs=2)
    nodes = program.report.nodes.total()
    return {"nodes": f"{nodes:,}", "executions": f"{executions(profile):,}"}


BENCHMARKS: Mapping[str, Benchmark] = {
    name: Benchmark(name, partial(lowered, name), zoo=name) for name in load_all()
}
