"""Effects of rules on one program: how often they fire, and the nodes they save."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
import onnx
import onnx_ir as oir
import onnxruntime

import hlo2onnx
from hlo2onnx.ir.loop_facts import exact_trips
from hlo2onnx.ir.traversal import subgraphs
from tools.bench.timing import medians
from tools.zoo.program import lowered

OTHER_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "rnn": {"target": "onnx"},
    "turned-part": {"opset": 24},
}
"""Rules that do not fire by default, and the options with which they are measured."""


@dataclass(frozen=True)
class Saving:
    """What a rule saves in a program.

    Attributes:
        nodes: Nodes of the model without the rule, minus those with it.
        runs: The same for the nodes that one call runs: see `node_runs`.
        kernels: The same for the nodes that ONNX Runtime has after its own fusions. Measured if
            neither of the former is positive.
        percent: Of the time of a call. Measured if the former are not positive either and there
            are arguments.
        exact: Numbers of the results that equal XLA's bit for bit with the rule, minus those
            without it. Measured with the time.
    """

    nodes: int = 0
    runs: int = 0
    kernels: int = 0
    percent: int = 0
    exact: int = 0


@dataclass
class Measured:
    """What rules do to one program.

    Attributes:
        nodes: Nodes of the model.
        fired: How often each rule fired.
        saved: What the rules save that were asked for.
    """

    nodes: int
    fired: dict[str, int]
    saved: dict[str, Saving] = field(default_factory=dict)


def measure(
    source: Any, rules: Iterable[str] | None = None, args: Sequence[Any] | None = None
) -> Measured:
    """Translates a program, and once more without each of some rules.

    Args:
        source: What `hlo2onnx.translate` takes.
        rules: The rules to switch off, one at a time; None for all. Only those that fire count.
        args: Arguments of a `jax.stages.Lowered` source to run it with.
    """
    program = hlo2onnx.translate(source)
    fired = dict(sorted(program.report.rules.items()))
    found = Measured(program.report.nodes.total(), fired)
    for rule in sorted(set(fired) | OTHER_OPTIONS.keys() if rules is None else rules):
        options = OTHER_OPTIONS.get(rule, {})
        one = hlo2onnx.translate(source, **options) if options else program
        if one.report.rules[rule]:
            fired[rule] = one.report.rules[rule]
            other = hlo2onnx.translate(source, without=rule, **options)
            found.saved[rule] = _saving(source, one, other, args)
    return found


def _saving(source: Any, one: Any, other: Any, args: Sequence[Any] | None) -> Saving:
    """What a model saves over another one."""
    nodes = other.report.nodes.total() - one.report.nodes.total()
    runs = node_runs(other, args) - node_runs(one, args)
    if nodes > 0 or runs > 0:
        return Saving(nodes, runs)
    kernels = _kernels(other) - _kernels(one)
    if kernels > 0 or args is None:
        return Saving(nodes, runs, kernels)
    expected = jax.tree.leaves(source.compile()(*args))
    exact = _equal(one(*args), expected) - _equal(other(*args), expected)
    mine, its = medians([lambda: one(*args), lambda: other(*args)])
    return Saving(nodes, runs, kernels, round(100 * (1 - mine / its)), exact)


def _kernels(program: Any) -> int:
    """How many nodes ONNX Runtime has after its own fusions, in bodies too."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        program.save(Path(folder) / "model.onnx")
        providers = ["CPUExecutionProvider"]
        onnxruntime.InferenceSession(Path(folder) / "model.onnx", options, providers)
        graph = oir.from_proto(onnx.load(options.optimized_model_filepath)).graph
    return sum(1 for _ in graph.all_nodes())


def _equal(results: Any, expected: Sequence[Any]) -> int:
    """How many numbers of the results are those expected."""
    pairs = zip(jax.tree.leaves(results), expected, strict=True)
    return sum(int(np.sum(np.asarray(x) == np.asarray(y))) for x, y in pairs)


def node_runs(program: Any, args: Sequence[Any] | None = None) -> int:
    """How many nodes one call runs.

    The body of a loop counts once a trip, and every branch once. A loop whose trips depend on data
    is run, and its trips are counted.

    Args:
        program: An `OnnxProgram`.
        args: Arguments of the call; random ones by default. Its loops must end.
    """
    graph = program.model.graph
    counts: dict[str, float] = {}
    if any(_is_loop(node) and exact_trips(node) is None for node in graph.all_nodes()):
        for node in program.profile(*args or (), runs=1).nodes:
            counts[node.name] = max(counts.get(node.name, 0), node.trips)
    return _runs(graph, 1, counts)


def _is_loop(node: oir.Node) -> bool:
    return node.op_type in ("Loop", "Scan")


def _runs(graph: oir.Graph, times: int, counts: Mapping[str, float]) -> int:
    """The same for a graph that a call runs several times.

    Args:
        counts: How often the nodes run that loops with unknown trips hold, by name.
    """
    total = times * len(graph)
    for node in graph:
        trips = exact_trips(node) if _is_loop(node) else 1
        for body in subgraphs(node):
            ran = max((round(counts.get(inner.name or "", 0)) for inner in body), default=0)
            total += _runs(body, ran if trips is None else times * trips, counts)
    return total


def main() -> None:
    """Measures one program of the zoo, in the environment that has its packages.

    The arguments are its name, the path of a JSON file to write, and the rules to switch off.
    """
    os.environ.setdefault("KERAS_BACKEND", "jax")
    name, path, *rules = sys.argv[1:]
    source, args = lowered(name)
    found = {"jax": jaxlib.__version__, **asdict(measure(source, rules, args))}
    Path(path).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
