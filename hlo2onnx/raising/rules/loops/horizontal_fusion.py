"""Horizontal fusion of two tensors that a body treats alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import onnx_ir as oir

from hlo2onnx.ir.nodes import BY_RECIPROCAL
from hlo2onnx.ir.op_families import BROADCASTING, UNARY
from hlo2onnx.ir.values import attributes_of, dtype_of, rank_of, shape_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import first
from hlo2onnx.rewrite.replace import replace

MOST_NODES = 2000
"""Larger bodies are not searched: a limit on compile time, no cost."""

_ELEMENTWISE = UNARY | BROADCASTING
_JOINING = frozenset({"Concat", "Split"})


class HorizontalFusion(Rule):
    """f(Split(x)), f(Split(y)) -> Split(f(Split(Concat(x, y)))), in the body of a loop or a branch

    Legal if f is the same for both: elementwise operators, and Concats and Splits along other axes
    than the last, along which x and y are joined. Other operands of f are the same for both and
    have one element along that axis. Done if it saves nodes, for small tensors. Solvers of
    differential equations compute fluxes from the states on both sides of a face like this.
    """

    name = "horizontal-fusion"
    formerly = ("join-twins",)
    anchors = frozenset({"Split"})
    phase = 3

    def rewrite(self, node: oir.Node, b: Rewriter) -> list[oir.Value]:
        body, x = node.graph, static_shape(first(node))
        need(body is not None and body is not b.main_graph, "it is not in a body", node)
        need(x and x[-1] > 1, "its shape is symbolic, or it has one column", node)
        assert body is not None
        assert x
        need(len(body) <= MOST_NODES, "the body is too large", node)
        need(b.supports("Split", dtype_of(first(node))), "the target cannot split it", node)
        copies = math.prod(x) // b.costs.joined_elements_per_node
        enough = max(b.costs.fewest_fused_nodes, copies)
        splits = b.nodes_of(body, "Split")
        others = [one for one in splits[splits.index(node) + 1 :] if _are_alike(node, one)]
        places = {one: place for place, one in enumerate(b.nodes_of(body))} if others else {}
        for other in others:
            twins = _Twins(node, other, places)
            if twins.saved >= enough:
                with b.before(other):
                    return twins.joined(b)
        raise Refusal("no other tensor is split and used alike", node)


def _are_alike(node: oir.Node, other: oir.Node) -> bool:
    """Whether two Splits take different tensors of one type and shape."""
    x, y = first(node), first(other)
    return x is not y and shape_of(x) == shape_of(y) and dtype_of(x) == dtype_of(y)


class _Twins:
    """Two Splits, and pairs of nodes that treat their outputs alike.

    Attributes:
        saved: Nodes saved by merging the pairs.
    """

    def __init__(self, node: oir.Node, other: oir.Node, places: dict[oir.Node, int]) -> None:
        self._places = places
        self._start = places[other]
        self._extent = (static_shape(first(node)) or ())[-1]
        self._second: dict[oir.Value, oir.Value] = {first(node): first(other)}
        self._nodes: dict[oir.Node, oir.Node] = {}
        self._taken: set[oir.Node] = set()
        self._pending: list[tuple[int, oir.Node]] = []  # readers that may have a twin
        self.saved = 0
        if self._is_early(first(other)) and self._fit(node, other):
            self._pending = [
                (places[x], x) for x in first(node).consumers() if places.get(x, -1) > places[node]
            ]
            heapify(self._pending)
            self._add(node, other)
            while self._pending:
                self._follow(heappop(self._pending)[1])
            is_apart = first(other).producer() not in self._nodes
            if is_apart and all(places.get(x, -1) > self._start for _, x in self._others()):
                self.saved = len(self._nodes) - 1 - len(self._read())

    def _follow(self, one: oir.Node) -> None:
        """Adds a reader of the first of two values, if another node treats the second one alike.

        Readers come in the order of the graph, as each may be one of several values.
        """
        seconds = [self._second[x] for x in one.inputs if x is not None and x in self._second]
        if one in self._taken or not seconds:
            return
        for other in seconds[0].consumers():
            if other is not one and other not in self._taken and self._fit(one, other):
                self._add(one, other)
                return

    def _add(self, one: oir.Node, other: oir.Node) -> None:
        self._nodes[one] = other
        for reader in {reader for x in one.outputs for reader in x.consumers()}:
            if reader in self._places:
                heappush(self._pending, (self._places[reader], reader))
        self._taken |= {one, other}
        self._second.update(zip(one.outputs, other.outputs, strict=True))

    def _fit(self, one: oir.Node, other: oir.Node) -> bool:
        """Whether two nodes treat two values alike, and one node could treat both."""
        if _form(one) != _form(other) or one.domain or other not in self._places:
            return False
        if any(shape_of(x)[-1:] != (self._extent,) for x in one.outputs):
            return False
        if one.op_type in _JOINING:
            rank = rank_of(first(one))
            if one.attributes.get_int("axis", 0) % rank == rank - 1:
                return False
        elif one.op_type not in _ELEMENTWISE:
            return False
        pairs = list(zip(one.inputs, other.inputs, strict=True))
        if one.op_type == "Split" and pairs[1:] and not self._is_shared(*pairs.pop()):
            return False
        return all(
            self._is_pair(x, y)
            or (one.op_type in _ELEMENTWISE and self._is_shared(x, y) and _is_one_wide(x))
            for x, y in pairs
        )

    def _is_pair(self, x: oir.Value | None, y: oir.Value | None) -> bool:
        return x is not None and self._second.get(x) is y

    def _is_shared(self, x: oir.Value | None, y: oir.Value | None) -> bool:
        return x is y and (x is None or self._is_early(x))

    def _is_early(self, x: oir.Value) -> bool:
        """Whether a value is made before both Splits."""
        node = x.producer()
        return node is None or self._places.get(node, -1) < self._start

    def _others(self) -> Iterator[tuple[oir.Value, oir.Node]]:
        """Other readers of a pair: its first value, and the reader."""
        for one in self._nodes:
            for x in one.outputs:
                readers = (*x.consumers(), *self._second[x].consumers())
                yield from ((x, reader) for reader in readers if reader not in self._taken)

    def _read(self) -> set[oir.Value]:
        """The first values of pairs that other nodes read, or that are outputs."""
        returned = {
            x for x, y in self._second.items() if x.is_graph_output() or y.is_graph_output()
        }
        return returned & {x for one in self._nodes for x in one.outputs} | {
            x for x, _ in self._others()
        }

    def joined(self, b: Rewriter) -> list[oir.Value]:
        """Merges the pairs of nodes; returns the replacements of the first Split's outputs."""
        node, *rest = self._nodes
        source, read = first(node), self._read()
        new = {source: b.concat([source, self._second[source]], rank_of(source) - 1)}
        parts: dict[oir.Value, oir.Value] = {}
        for one in self._nodes:
            inputs = [x if x is None else new.get(x, x) for x in one.inputs]
            types = [(dtype_of(x), (*shape_of(x)[:-1], 2 * self._extent)) for x in one.outputs]
            new.update(zip(one.outputs, b.copy_of(one, inputs, types), strict=True))
            if one is node or not read.isdisjoint(one.outputs):
                for x in one.outputs:
                    sizes = b.i64([self._extent] * 2)
                    pair = b.outputs("Split", new[x], sizes, axis=rank_of(x) - 1, n_outputs=2)
                    parts.update(zip((x, self._second[x]), pair, strict=True))
        for one in reversed(rest):
            self._replace(one, parts)
            self._replace(self._nodes[one], parts)
        self._replace(self._nodes[node], parts)
        return [parts[x] for x in node.outputs]

    def _replace(self, node: oir.Node, parts: dict[oir.Value, oir.Value]) -> None:
        """Removes a node. Its readers read a part of the merged node."""
        if node.outputs[0] in parts:
            replace(node, [parts[x] for x in node.outputs])
        elif node.graph is not None:
            node.graph.remove(node, safe=True)


def _is_one_wide(x: oir.Value | None) -> bool:
    """Whether a value is missing or has one element along the last axis."""
    return x is None or shape_of(x)[-1:] in ((), (1,))


def _form(node: oir.Node) -> tuple[object, ...]:
    """What the nodes of a pair must share."""
    counts = len(node.inputs), len(node.outputs)
    return (node.op_type, node.domain, counts, attributes_of(node), BY_RECIPROCAL in node.meta)
