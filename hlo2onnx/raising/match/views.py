"""The operands of nodes, and the nodes that make values."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.op_families import RESHAPES as RESHAPES
from hlo2onnx.ir.values import Shape, const_ints, dtype_of, is_constant, shape_of
from hlo2onnx.raising.engine import Rewriter, need

MOST_NODES = 24
"""Longest chain of nodes of one pattern."""


def operands(node: oir.Node) -> list[oir.Value]:
    """The operands that are given."""
    return [x for x in node.inputs if x is not None]


def both_orders(node: oir.Node) -> tuple[tuple[oir.Value, oir.Value], ...]:
    """The two operands of a node in both orders."""
    x, y = operands(node)
    return (x, y), (y, x)


def first(node: oir.Node) -> oir.Value:
    """The first operand, which every operator here has."""
    x = node.inputs[0]
    assert x is not None
    return x


def maker_of(value: oir.Value | None, *op_types: str) -> oir.Node | None:
    """The node that makes `value`, if it is one of these standard operators."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type in op_types and not node.domain else None


def source_of(value: oir.Value | None, *op_types: str) -> oir.Value | None:
    """The first operand of the node that makes `value`, if it is one of these operators."""
    node = maker_of(value, *op_types)
    return None if node is None else node.inputs[0]


def ranges_of(node: oir.Node) -> dict[int, range] | None:
    """The range of a Slice along each of its axes; None if one is not known, is empty, or goes
    backwards."""
    known = [item for item in map(const_ints, node.inputs[1:]) if item is not None]
    if len(known) < max(3, len(node.inputs) - 1):
        return None
    steps = known[3] if len(known) > 3 else (1,) * len(known[0])
    dims, ranges = shape_of(first(node)), {}
    for start, end, axis, step in zip(*known[:3], steps, strict=True):
        extent = dims[axis]
        rows = range(extent)[start:end:step] if isinstance(extent, int) and step > 0 else ()
        if not isinstance(rows, range) or not rows:
            return None
        ranges[axis % len(dims)] = rows
    return ranges


def unshaped(value: oir.Value) -> oir.Value:
    """The value before all its Reshapes."""
    while (source := source_of(value, *RESHAPES)) is not None:
        value = source
    return value


def long_axes(shape: Shape, other: Shape) -> dict[int, int] | None:
    """The axis of `other` for each axis of `shape` with an extent other than 1; None if they differ
    in more than axes of extent 1."""
    mine, its = ([axis for axis, dim in enumerate(x) if dim != 1] for x in (shape, other))
    same = [shape[axis] for axis in mine] == [other[axis] for axis in its]
    return dict(zip(mine, its, strict=True)) if same else None


def extent_of(value: oir.Value, axis: int) -> int | None:
    """The extent of an axis; None if it is symbolic."""
    extent = shape_of(value)[axis]
    return extent if isinstance(extent, int) else None


def is_private(value: oir.Value) -> bool:
    """Whether one node, and not the caller, reads a value."""
    return len(value.uses()) == 1 and not value.is_graph_output()


def widens_row(node: oir.Node, table: oir.Value, row: oir.Value) -> bool:
    """Whether a node widens a row of a constant, which keeps its type: see `qdq-propagation`."""
    return (
        node.op_type == "Cast"
        and is_constant(table)
        and first(node) is row
        and dtype_of(node.outputs[0]).bitwidth > dtype_of(table).bitwidth
    )


def is_only_for(node: oir.Node, x: oir.Value) -> bool:
    """Whether the values on the path from x to a node have no other readers."""
    leads: dict[oir.Node, bool] = {}

    def visit(here: oir.Node, depth: int) -> bool:
        if here not in leads:
            makers = [value.producer() for value in operands(here) if value is not x]
            below = [visit(maker, depth - 1) for maker in makers if maker is not None and depth]
            leads[here] = x in here.inputs or any(below)
        return leads[here]

    visit(node, MOST_NODES)
    between = {here for here, from_x in leads.items() if from_x}
    inner = [output for here in between - {node} for output in here.outputs]
    return not any(
        output.is_graph_output() or not between.issuperset(output.consumers()) for output in inner
    )


def reshaped(node: oir.Node, b: Rewriter, x: oir.Value) -> oir.Value:
    """x in the shape of the node's result, in one node."""
    dims = shape_of(node.outputs[0])
    need(b.reshapes_at_once(x, dims), "its shape is computed at run time", node)
    return b.reshape(x, dims)
