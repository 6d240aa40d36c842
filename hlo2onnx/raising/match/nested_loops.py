"""Nested loops: the values that they read, and which of those change."""

from __future__ import annotations

from collections.abc import Container
from functools import cached_property

import onnx_ir as oir

from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.raising.engine import Rewriter, need
from hlo2onnx.raising.match.counted_loop import counted


class Nested:
    """A Scan over rows in order, or a Loop that makes a known number of trips.

    Attributes:
        body: Its inputs are in the order of the node's.
        scanned: How many inputs are scanned: the last ones.
        states: The positions of the states among the inputs.

    Raises:
        Refusal: It is another kind of loop, or contains one.
    """

    def __init__(self, node: oir.Node) -> None:
        if node.op_type == "Loop":
            counted(node)
        else:
            known = {"body", "num_scan_inputs"}
            need(set(node.attributes) == known, "it scans in another order", node)
        self.node = node
        self.body = node.attributes["body"].as_graph()
        need(not any(map(subgraphs, self.body)), "it has a loop or a branch", node)
        self.scanned = node.attributes.get_int("num_scan_inputs", 0)
        first = 2 if node.op_type == "Loop" else 0
        self.states = range(first, len(self.body.inputs) - self.scanned)

    @property
    def results(self) -> list[oir.Value]:
        """The body's output for each of the node's outputs."""
        return list(self.body.outputs)[1 if self.node.op_type == "Loop" else 0 :]

    @cached_property
    def captured(self) -> set[oir.Value]:
        """The values that the body reads besides its inputs."""
        own = {*self.body.inputs, *(x for node in self.body for x in node.outputs)}
        read = {x for node in self.body for x in node.inputs if x is not None}
        return {*read, *self.body.outputs} - own

    def changing(self, rows: Container[oir.Value]) -> set[oir.Value]:
        """The values of the body that depend on changing outer values."""
        pairs = zip(self.body.inputs, self.node.inputs, strict=True)
        found = {x for x, given in pairs if given in rows}
        size = -1
        while size < len(found):
            size = len(found)
            for node in self.body:
                if any(x in found or x in rows for x in node.inputs):
                    found.update(node.outputs)
            for place, after in zip(self.states, self.results, strict=False):
                if after in found:
                    found.add(self.body.inputs[place])
        return found

    def changes(self, place: int, changing: set[oir.Value]) -> bool:
        """Whether a result, or the state behind it, is among the changing values."""
        if place < len(self.states):
            return self.body.inputs[self.states[place]] in changing
        return self.results[place] in changing


def copied(b: Rewriter, body: oir.Graph) -> tuple[oir.Graph, dict[oir.Value, oir.Value]]:
    """A copy of a body under new names, and the copy of each value."""
    copy = body.clone(allow_outer_scope_values=True)
    _name(b, copy)
    pairs = dict(zip(body.inputs, copy.inputs, strict=True))
    for old, new in zip(body, copy, strict=True):
        pairs.update(zip(old.outputs, new.outputs, strict=True))
    return copy, pairs


def _name(b: Rewriter, graph: oir.Graph) -> None:
    """Gives a copy and its values new names, and clears their metadata."""
    graph.name = b.names.unique(graph.name or "body")
    for value in (*graph.inputs, *(x for node in graph for x in node.outputs)):
        value.name = b.names.unique(value.name or "value")
        value.meta.clear()
    for node in graph:
        for inner in subgraphs(node):
            _name(b, inner)
