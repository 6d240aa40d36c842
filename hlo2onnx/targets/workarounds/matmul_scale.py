"""Scaled matrices, for runtimes that keep the scale of a product as an f32 number.

A MatMul before or after a Mul or Div by a constant scalar becomes one node with this factor as an
attribute. Three things go wrong:

* The attribute is f32: an f64 factor of 0.1 is wrong from the ninth digit on. The product of two
  factors can exceed f32; then the runtime does not load the model.
* The factor multiplies the finished product, which overflows or vanishes although the factor was to
  keep it in range: (x * 1e-20) @ y for x = 1e30 and y = 1e20.
* All factors around a product become one: 1e-30 for either operand is 1e-60, which f32 rounds to 0.

So a scalar stays if it is not far from 1, and in f64 if it is also a power of two, whose products
are exact. With f32 factors of 24 bits, only products within 24 bits of the ends of the range can
leave it. Other factors become a row: the runtime leaves constants of several elements, or with more
axes than the matrix, as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import dtype_of, is_constant, shape_of
from hlo2onnx.ir.weights import ask

_LOOKED_THROUGH = frozenset({"Transpose", "Identity"})
_FLOATS = frozenset({oir.DataType.FLOAT, oir.DataType.DOUBLE})
_FAR = 2.0**24
"""Factors of more than this, and of less than its inverse, are far from 1."""


def spell_out_scale(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A Mul or Div next to a MatMul with a row in place of a scalar that is no ordinary factor, or
    with an array of one more axis if no extent is known to exceed 1; None for others."""
    (result,) = node.outputs
    if dtype_of(result) not in _FLOATS:
        return None
    place = 1 if node.op_type == "Div" or is_constant(node.inputs[1]) else 0
    scale, x = node.inputs[place], node.inputs[1 - place]
    if scale is None or x is None or not is_constant(scale) or set(shape_of(scale)) - {1}:
        return None
    if ask(_is_ordinary, scale):
        return None
    extents = shape_of(x)
    if shape_of(result) != extents or not (_feeds_product(result) or _is_product(x)):
        return None
    long = {axis: n for axis, n in enumerate(extents) if isinstance(n, int) and n > 1}
    axis = max(long, default=-1)
    dims = [long[axis], *[1] * (len(extents) - axis - 1)] if long else [1] * (len(extents) + 1)
    row = builder.derived(lambda array: np.full(dims, array.item(), array.dtype), scale)
    scaled: oir.Value = builder.op(node.op_type, x, row)
    return scaled if long else builder.squeeze(scaled, [0])


def _is_ordinary(scale: np.ndarray) -> bool:
    """Whether the factor is the same number in f32, and not far from 1."""
    number = float(scale.item())
    if not np.isfinite(number) or not 1 / _FAR <= abs(number) <= _FAR:
        return False
    is_power = bool(abs(np.frexp(number)[0]) == 0.5)
    return is_power or scale.dtype == np.float32


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
