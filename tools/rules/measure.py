"""Effects of rules on one program: how often they fire, and the nodes they save."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnx_ir as oir
import onnxruntime

import hlo2onnx
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import const_number, shape_of
from tools.bench.timing import medians

OTHER_TARGETS = {"attention": "onnx", "rnn": "onnx"}
"""Rules that do not fire for ONNX Runtime, and the target that they are measured for."""


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
    for rule in sorted(set(fired) | OTHER_TARGETS.keys() if rules is None else rules):
        options = {"target": OTHER_TARGETS[rule]} if rule in OTHER_TARGETS else {}
        one = hlo2onnx.translate(source, **options) if options else program
        if one.report.rules[rule]:
            fired[rule] = one.report.rules[rule]
            other = hlo2onnx.translate(source, without=rule, **options)
            found.saved[rule] = _saving(source, one, other, args)
    return found


def _saving(source: Any, one: Any, other: Any, args: Sequence[Any] | None) -> Saving:
    """What a model saves over another one."""
    nodes = other.report.nodes.total() - one.report.nodes.total()
    runs = node_runs(other.model.graph) - node_runs(one.model.graph)
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


def node_runs(graph: oir.Graph) -> int:
    """How many nodes one call runs.

    The body of a loop counts once a trip, or once if the number of trips is not known. Every branch
    counts once.
    """
    count = 0
    for node in graph:
        bodies = sum(map(node_runs, subgraphs(node)))
        count += 1 + _trips(node) * bodies
    return count


def _trips(node: oir.Node) -> int:
    if node.op_type == "Loop":
        limit = const_number(node.inputs[0])
        return 1 if limit is None else int(limit)
    if node.op_type == "Scan":
        rows = node.inputs[-1]  # scanned inputs are the last ones, all of one length
        axes = node.attributes.get("scan_input_axes")
        axis = axes.as_ints()[-1] if axes is not None else 0
        assert rows is not None
        length = shape_of(rows)[axis]
        return length if isinstance(length, int) else 1
    return 1
