"""Computations on gathered rows are moved in front of the loop, to the whole table."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx_ir as oir

from hlo2onnx.ir.op_families import ELEMENTWISE
from hlo2onnx.ir.traversal import nodes_in
from hlo2onnx.ir.values import (
    FLOATS,
    const_number,
    dtype_of,
    rank_of,
    shape_of,
    static_shape,
)
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.views import first, widens_row
from hlo2onnx.rewrite.replace import replace
from hlo2onnx.targets.costs import Costs


class GatherHoisting(Rule):
    """Loop(f(Gather(x, i))) -> y = f(x); Loop(Gather(y, i)), for elementwise f

    Legal for a tensor from before the loop and constants: each element is computed as before. Done
    if fewer nodes remain in the body, and the tensor is small or a trip gathers a large part of it.
    A constant that the body widens stays narrow. JAX's searchsorted gathers like this.
    """

    name = "gather-hoisting"
    formerly = ("computed-table",)
    anchors = frozenset({"Gather"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        body, x, taken = node.graph, first(node), node.outputs[0]
        need(isinstance(body, oir.Graph) and _is_body(body), "it is in no loop", node)
        assert isinstance(body, oir.Graph)
        need(node.inputs[1] is not body.inputs[0], "each trip gathers its own row", node)
        maker = x.producer()
        is_outer = x not in body.inputs and (maker is None or maker.graph is not body)
        need(
            is_outer and _is_small(x, taken, b.costs),
            "what it takes from is made in the loop, or large",
            x,
        )
        computed = _computed(body, taken, x)
        ends = [value for value in computed if _is_read(value, computed)]
        need(len(ends) < len(computed), "no node would be saved", node)
        tables = {taken: x}
        for value in computed:
            maker = value.producer()
            if maker is not None and maker is not node:
                inputs = [None if y is None else tables.get(y, y) for y in maker.inputs]
                tables[value] = b.like(maker, inputs)
        for value in ends:
            if value is not taken:
                _replaced(node, b, value, tables)
        for value in reversed(list(computed)):
            maker = value.producer()
            if maker is not node and maker is not None and maker.graph is not None:
                body.remove(maker, safe=True)
        return b.like(node, node.inputs)


def _is_body(graph: oir.Graph) -> bool:
    """Whether it is the body of a Loop; LICM moves invariant nodes out of it."""
    kinds = [(dtype_of(x), rank_of(x)) for x in list(graph.inputs)[:2]]
    return kinds == [(oir.DataType.INT64, 0), (oir.DataType.BOOL, 0)]


def _is_small(x: oir.Value, taken: oir.Value, costs: Costs) -> bool:
    dims, few = static_shape(x), static_shape(taken)
    if not dims or few is None:
        return False
    most = max(costs.hoisted_elements, costs.hoisted_ratio * math.prod(few))
    return 0 < math.prod(dims) <= most


def _computed(body: oir.Graph, taken: oir.Value, x: oir.Value) -> dict[oir.Value, None]:
    """The values computed from a row of x and constants alone, element by element, including the
    row."""
    found, rank = {taken: None}, rank_of(x)
    if all(reader.op_type not in ELEMENTWISE for reader in taken.consumers()):
        return found
    for node in nodes_in(body):
        known = not found.keys().isdisjoint(node.inputs)
        if known and node.op_type in ELEMENTWISE and not node.domain:
            others = [y for y in node.inputs if y is not None and y not in found]
            numbers = all(
                const_number(other) is not None and rank_of(other) <= rank for other in others
            )
            same = shape_of(node.outputs[0]) == shape_of(taken)
            if numbers and same and _is_safe(node) and not widens_row(node, x, taken):
                found[node.outputs[0]] = None
    return found


def _is_safe(node: oir.Node) -> bool:
    """Whether a node may be applied to rows that the loop never gathers: some integers cannot be
    divided."""
    return node.op_type not in ("Div", "Mod") or dtype_of(node.outputs[0]) in FLOATS


def _is_read(value: oir.Value, computed: Mapping[oir.Value, None]) -> bool:
    """Whether a node that is not computed element by element reads the value."""
    if value.is_graph_output():
        return True
    return any(reader.outputs[0] not in computed for reader in value.consumers())


def _replaced(
    node: oir.Node, b: Rewriter, value: oir.Value, tables: Mapping[oir.Value, oir.Value]
) -> None:
    """Gathers a value from its table."""
    maker = value.producer()
    assert maker is not None
    with b.before(maker):
        row = b.like(node, [tables[value], *node.inputs[1:]])
    replace(maker, [row])
