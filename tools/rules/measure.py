"""Effects of rules on one program: how often they fire, and the nodes they save."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as oir

import hlo2onnx
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import const_number, shape_of


@dataclass(frozen=True)
class Saving:
    """What a rule saves in a program.

    Attributes:
        nodes: Nodes of the model without the rule, minus those with it.
        runs: The same for the nodes that one call runs: see `node_runs`.
    """

    nodes: int = 0
    runs: int = 0


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


def measure(source: Any, rules: Iterable[str] | None = None) -> Measured:
    """Translates a program, and once more without each of some rules.

    Args:
        source: What `hlo2onnx.translate` takes.
        rules: The rules to switch off, one at a time; None for all. Only those that fire count.
    """
    program = hlo2onnx.translate(source)
    fired = dict(sorted(program.report.rules.items()))
    found = Measured(program.report.nodes.total(), fired)
    runs = node_runs(program.model.graph)
    for rule in fired if rules is None else sorted(set(rules) & fired.keys()):
        other = hlo2onnx.translate(source, without=rule)
        found.saved[rule] = Saving(
            other.report.nodes.total() - found.nodes, node_runs(other.model.graph) - runs
        )
    return found


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
