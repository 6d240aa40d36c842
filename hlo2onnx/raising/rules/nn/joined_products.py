"""Products of one value with several weights, rounded to a half type, become one."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.roundings import HALF_TYPES
from hlo2onnx.ir.values import dtype_of, is_constant, rank_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import first, is_private, maker_of, source_of
from hlo2onnx.rewrite.replace import replace

_Kind = tuple[oir.DataType, oir.DataType, int]
"""The type that the product is rounded to, that in which the weight is stored, and its rows."""


class JoinRoundedProducts(Rule):
    """MatMul(x, v), MatMul(x, w) -> Split(MatMul(x, Concat(v, w)))

    Legal for any matrices: each column of a product depends on one column of the weight. Done for
    constant weights that only these products read, and products that are rounded to a half type at
    once: `split-after-elementwise` then rounds all together. Query, key and value of attention are
    such products, and the gates of SwiGLU.
    """

    name = "join-rounded-products"
    anchors = frozenset({"MatMul"})
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        kind = needed(_kind(node), "it is no rounded product with a weight of its own", node)
        x = first(node)
        row = [
            each
            for each in x.consumers()
            if each.graph is node.graph
            and first(each) is x
            and (each is node or _kind(each) == kind)
        ]
        need(len(row) > 1, "no other product of its operand is rounded alike", node)
        need(row[0] is node, "an earlier product is joined with it", node)
        stored = [_stored(each) for each in row]
        sizes = [_columns(weight) for weight in stored]
        joined = b.derived(lambda *arrays: np.concatenate(arrays, axis=1), *stored, note="joined")
        with b.at_start():
            weight = b.cast(joined, dtype_of(x))
        maker = x.producer()
        in_graph = maker is not None and maker.graph is node.graph
        with b.after(maker) if in_graph and maker is not None else b.before(node):
            product = b.MatMul(x, weight)
            axis = rank_of(product) - 1
            parts = b.outputs("Split", product, b.i64(sizes), axis=axis, n_outputs=len(row))
        for each, part in zip(row[1:], parts[1:], strict=True):
            replace(each, [part])
        return parts[0]


def _kind(node: oir.Node) -> _Kind | None:
    """Which products a product can be joined with; None for none."""
    if node.op_type != "MatMul" or node.domain or first(node).const_value is not None:
        return None
    weight, product, stored = node.inputs[1], node.outputs[0], _stored(node)
    assert weight is not None
    dims = static_shape(stored)
    if not is_constant(stored) or dims is None or len(dims) != 2 or rank_of(first(node)) < 2:
        return None
    if not (is_private(weight) and is_private(stored) and is_private(product)):
        return None
    rounding = product.consumers()[0]
    final = dtype_of(rounding.outputs[0])
    if rounding.op_type != "Cast" or final not in HALF_TYPES:
        return None
    return final, dtype_of(stored), dims[0]


def _stored(node: oir.Node) -> oir.Value:
    """The weight of a product, before a Cast from the type in which it is stored."""
    weight = node.inputs[1]
    assert weight is not None
    cast = maker_of(weight, "Cast")
    source = source_of(weight, "Cast")
    return source if cast is not None and source is not None and is_constant(source) else weight


def _columns(weight: oir.Value) -> int:
    dims = static_shape(weight)
    assert dims is not None
    return dims[1]
