"""Scaled f64 matrices, for runtimes that keep the scale of a product as an f32 number.

A MatMul that a Mul or Div by a constant scalar stands next to becomes one node with that factor as
an attribute, and attributes are f32: 0.1 is wrong from the ninth digit on. A constant of more than
one element is left alone, and so is one of more axes than the matrix.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as oir

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.graph.edit import replace
from hlo2onnx.graph.values import const_of, dtype_of, shape_of

_LOOKED_THROUGH = frozenset({"Transpose", "Identity"})


def spell_out_scale(node: oir.Node, builder: GraphBuilder) -> bool:
    """Replaces the scalar by a row of it, or where no extent is known to be more than 1 by an array
    of one more axis, where it is no f32 number and a MatMul stands next to the node; False for
    others."""
    (result,) = node.outputs
    if dtype_of(result) != oir.DataType.DOUBLE:
        return False
    place = 1 if node.op_type == "Div" or const_of(node.inputs[1]) is not None else 0
    scale, x = const_of(node.inputs[place]), node.inputs[1 - place]
    if scale is None or x is None or scale.size != 1 or _is_single(scale, node.op_type):
        return False
    extents = shape_of(x)
    if shape_of(result) != extents or not (_feeds_product(result) or _is_product(x)):
        return False
    long = {axis: n for axis, n in enumerate(extents) if isinstance(n, int) and n > 1}
    axis = max(long, default=-1)
    dims = [long[axis], *[1] * (len(extents) - axis - 1)] if long else [1] * (len(extents) + 1)
    with builder.before(node):
        row = builder.const(np.full(dims, scale.item()))
        operands = (x, row) if place == 1 else (row, x)
        replaced = builder.op(node.op_type, *operands)
        if not long:
            replaced = builder.squeeze(replaced, [0])
    replace(node, [replaced])
    return True


def _is_single(scale: np.ndarray, op_type: str) -> bool:
    """Whether the factor is the same number in f32."""
    with np.errstate(all="ignore"):
        factor = 1 / scale.reshape(()) if op_type == "Div" else scale.reshape(())
        exact = op_type == "Mul" or factor * scale.reshape(()) == 1
        return bool(exact and factor.astype(np.float32).astype(np.float64) == factor)


def _is_product(value: oir.Value) -> bool:
    node = value.producer()
    while node is not None and node.op_type in _LOOKED_THROUGH and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return node is not None and node.op_type == "MatMul"


def _feeds_product(value: oir.Value) -> bool:
    users: Iterable[oir.Node] = value.consumers()
    return any(
        user.op_type == "MatMul"
        or (user.op_type in _LOOKED_THROUGH and _feeds_product(user.outputs[0]))
        for user in users
    )
