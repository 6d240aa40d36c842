"""Reshapes of many small inputs of the model become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, shape_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import RESHAPES, first
from hlo2onnx.rewrite.replace import replace

_Kind = tuple[oir.DataType, int, int, int, int]
"""The element type; rank and axis of the vector before the Reshape, and after it."""

FEWEST: Final = 7
"""So many Reshapes are joined: three nodes are then fewer than half of them."""


class JoinVectorReshapes(Rule):
    """Reshape(v), Reshape(w), ... -> Split(Reshape(Concat(v, w, ...)))

    Legal for vectors, tensors with one axis that is not 1, that move to the same axis of as many
    dimensions. Done for inputs of the model: weights of normalizations, for which each layer has
    several such Reshapes, such as (1, 1, 1, c) -> (c). There must be at least seven, none so large
    that copying it once more takes longer than a node.
    """

    name = "join-vector-reshapes"
    anchors = RESHAPES
    # Other rules match and remove Reshapes.
    phase = 3

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(node.graph is b.main_graph, "it is in a body", node)
        kind = needed(_kind(node, b), "its operand is not a small vector of the caller", node)
        row = [each for each in b.main_graph if _kind(each, b) == kind]
        need(len(row) >= FEWEST, "there are few such Reshapes", node)
        need(row[0] is node, "an earlier Reshape is joined with it", node)
        dtype, _, before, rank, after = kind
        moves = b.supports("Concat", dtype) and b.supports("Split", dtype)
        need(moves, "the target cannot join this type", node)
        sizes = [_extent(each, after) for each in row]
        dims = [1] * rank
        dims[after] = sum(sizes)
        with b.at_start():
            whole = b.reshape(b.concat([first(each) for each in row], before), dims)
            parts = b.outputs("Split", whole, b.i64(sizes), axis=after, n_outputs=len(row))
        return self._replaced(row, parts)

    def _replaced(self, row: Sequence[oir.Node], parts: Sequence[oir.Value]) -> oir.Value:
        """Replaces all Reshapes but the first, whose new value it returns."""
        for each, part in zip(row[1:], parts[1:], strict=True):
            replace(each, [part])
        return parts[0]


def _kind(node: oir.Node, b: Rewriter) -> _Kind | None:
    """Which Reshapes a Reshape can be joined with; None for none."""
    if node.op_type not in RESHAPES or node.domain:
        return None
    x, result = first(node), node.outputs[0]
    if not x.is_graph_input() or x.graph is not b.main_graph or result.is_graph_output():
        return None
    before, after = _only_axis(x), _only_axis(result)
    if before is None or after is None:
        return None
    if _extent(node, after) > b.costs.copied_elements_per_node:
        return None
    return dtype_of(x), len(shape_of(x)), before, len(shape_of(result)), after


def _only_axis(x: oir.Value) -> int | None:
    """The axis of a vector; None for other tensors."""
    axes = [axis for axis, dim in enumerate(static_shape(x) or ()) if dim != 1]
    return axes[0] if len(axes) == 1 else None


def _extent(node: oir.Node, axis: int) -> int:
    extent = shape_of(node.outputs[0])[axis]
    assert isinstance(extent, int)
    return extent
