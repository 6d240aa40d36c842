"""Nodes written so that a runtime does not fuse them with others: its fusion would be wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import can_replace, replace
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import (
    FLOATS,
    INTEGERS,
    UNSIGNED,
    attributes_of,
    const_ints,
    const_of,
    dtype_of,
    is_constant,
    present,
    rank_of,
    shape_of,
    size_of,
)
from hlo2onnx.ir.weights import ask
from hlo2onnx.targets.builder import TargetBuilder

# -- double transposes -----------------------------------------------------------------------------

# Products of transposed f64 matrices, for runtimes that fuse the two and have no kernel for it.
#
# ONNX Runtime 1.20 to 1.23 makes FusedMatMul of a Transpose and a MatMul in f64 as well, and does
# not load the model then.


MATRIX = 2
_SWAPPED = (1, 0)


def transpose_in_gemm(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """MatMul(Transpose(x), y) -> Gemm(x, y, transA=1) for f64 matrices; likewise for y."""
    x, y = present(node.inputs)
    if dtype_of(x) != oir.DataType.DOUBLE or rank_of(x) != MATRIX or rank_of(y) != MATRIX:
        return None
    sources = [_transposed(x), _transposed(y)]
    if not any(sources) or not b.supports("Gemm", oir.DataType.DOUBLE):
        return None
    flags = {name: 1 for name, source in zip(("transA", "transB"), sources, strict=True) if source}
    return b.Gemm(sources[0] or x, sources[1] or y, **flags)


def _transposed(x: oir.Value) -> oir.Value | None:
    """The matrix of which x is the transpose."""
    node = x.producer()
    if node is None or node.op_type != "Transpose" or node.domain:
        return None
    is_swap = tuple(attributes_of(node).get("perm", _SWAPPED)) == _SWAPPED
    return node.inputs[0] if is_swap else None


# -- integer reciprocal ----------------------------------------------------------------------------

# Integer reciprocals, for runtimes that replace 1 / x * y by y / x in any element type.
#
# For integers 1 / x is 1, -1 or 0, so the two differ.


def spell_out_reciprocal(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """An integer Div(1, x) that a Mul reads as (x == 1) - (x == -1); None for others."""
    one, x = node.inputs
    assert x is not None
    ones = const_of(one)
    if dtype_of(x) not in INTEGERS or ones is None or ones.size != 1 or ones.item() != 1:
        return None
    if not any(user.op_type == "Mul" for user in node.outputs[0].consumers()):
        return None
    x = builder.unsqueeze(x, range(rank_of(node.outputs[0]) - rank_of(x)))
    result = builder.cast(builder.Equal(x, builder.scalar_like(1, x)), dtype_of(x))
    if dtype_of(x) in UNSIGNED:
        return result
    minus_one = builder.Equal(x, builder.scalar_like(-1, x))
    return builder.Sub(result, builder.cast(minus_one, dtype_of(x)))


# -- lost axes -------------------------------------------------------------------------------------

# Axes of 1 that only a constant has, for runtimes whose fusions drop the constant.
#
# `Mul(Div([1], x), y)` with scalars x and y has the shape (1,). A runtime that writes Div(y, x) in
# its place gives a scalar. So do the fusions that make Gelu, FastGelu, QuickGelu,
# SimplifiedLayerNormalization and MatMulIntegerToFloat, with each of their constants.


def move_axes(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A node of floats in which a constant of one number has the most axes, with these axes on its
    other operand instead; None for others."""
    x, c = present(node.inputs)
    if is_constant(x):
        x, c = c, x
    added = rank_of(c) - rank_of(x)
    if dtype_of(x) not in FLOATS or not is_constant(c) or size_of(c) != 1 or added <= 0:
        return None
    number = builder.derived(lambda array: array.reshape(()), c, is_moved=True)
    wider = builder.unsqueeze(x, range(added))
    return builder.like(node, [number, wider] if c is node.inputs[0] else [wider, number])


# -- matmul scale ----------------------------------------------------------------------------------

# Scaled matrices, for runtimes that keep the scale of a product as an f32 number.
#
# A MatMul before or after a Mul or Div by a constant scalar becomes one node with this factor as an
# attribute. Three things go wrong:
#
# * The attribute is f32: an f64 factor of 0.1 is wrong from the ninth digit on. The product of two
#   factors can exceed f32; then the runtime does not load the model.
# * The factor multiplies the finished product, which overflows or vanishes although the factor was
#   to keep it in range: (x * 1e-20) @ y for x = 1e30 and y = 1e20.
# * All factors around a product become one: 1e-30 for either operand is 1e-60, which f32 rounds to
#   0.
#
# So a scalar stays if it is not far from 1, and in f64 if it is also a power of two, whose products
# are exact. With f32 factors of 24 bits, only products within 24 bits of the ends of the range can
# leave it. Other factors become a row: the runtime leaves constants of several elements, or with
# more axes than the matrix, as they are.


_LOOKED_THROUGH = frozenset({"Transpose", "Identity"})
_FLOATS = frozenset({oir.DataType.FLOAT, oir.DataType.DOUBLE})
_FAR = 2.0**24
"""Factors of more than this, and of less than its inverse, are far from 1."""


def spell_out_scale(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A Mul or Div next to a MatMul with a row in place of a scalar that the runtime must not fuse,
    or with an array of one more axis if no extent is known to exceed 1; None for others."""
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


# -- max pool padding ------------------------------------------------------------------------------

# Zeros padded before a MaxPool, for runtimes that replace them by the padding of the MaxPool.
#
# That padding is -inf. Where all numbers at the border are negative, the zeros were the maxima.


def spell_out_axes(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A Pad that a MaxPool reads with one more axis, of extent 1 and in front, which the runtime
    does not match; None for others."""
    if node.attributes.get_string("mode", "constant") != "constant":
        return None
    if not any(user.op_type == "MaxPool" for user in node.outputs[0].consumers()):
        return None
    x, pads, value, named = (*node.inputs, None, None)[:4]
    widths = const_ints(pads)
    if x is None or named is not None or widths is None or not any(widths):
        return None
    result, rank = node.outputs[0], rank_of(x)
    edges = [0, *widths[:rank], 0, *widths[rank:]]
    types = [(dtype_of(result), (1, *shape_of(result)))]
    return builder.squeeze(
        builder.op("Pad", builder.unsqueeze(x, [0]), builder.i64(edges), value, types=types), [0]
    )


# -- clamps ----------------------------------------------------------------------------------------

# Max and Min with constants, for runtimes that make one operator of both, computed in f32.


_OTHER: Final = {"Max": "Min", "Min": "Max"}
_LARGEST: Final = 1 << 24
"""f32 holds all whole numbers up to it."""


def part_clamp(b: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """Min(Max(x, c), d) -> ~Max(~Max(x, c), ~d), and the same for Max(Min(x, c), d), for large
    INT32 constants. ~x is -1 - x, which reverses the order."""
    operands = present(node.inputs)
    other = _OTHER[node.op_type]
    if dtype_of(node.outputs[0]) != oir.DataType.INT32 or len(operands) != 2:
        return None
    for x, bound in (operands, operands[::-1]):
        limit, inner = const_of(bound), x.producer()
        if limit is None or inner is None or inner.op_type != other:
            continue
        known = [
            array for y in inner.inputs if y is not None and (array := const_of(y)) is not None
        ]
        if known and any(
            abs(array.astype("i8")).max(initial=0) >= _LARGEST for array in (limit, *known)
        ):
            return b.BitwiseNot(b.op(other, b.BitwiseNot(x), b.const(~limit)))
    return None


# -- cast transposes -------------------------------------------------------------------------------

# Transposes of half floats that are cast and multiplied, for runtimes that fuse all three.
#
# ONNX Runtime 1.31 fuses a Transpose into a MatMul and looks through a Cast between the two. With a
# Transpose of batch axes it crashes when it loads the model.


def widen_before_transposing(graph: oir.Graph, builder: GraphBuilder) -> None:
    """MatMul(Cast(Transpose(x))) -> MatMul(Transpose(Cast(x))), for casts of half floats to f32."""
    for node in all_nodes(graph):
        x = node.inputs[0] if node.op_type == "Cast" else None
        transpose = x.producer() if x is not None else None
        if transpose is None or transpose.op_type != "Transpose" or node.graph is None:
            continue
        source, wide = transpose.inputs[0], dtype_of(node.outputs[0])
        if source is None or dtype_of(source).bitwidth != 16 or wide != oir.DataType.FLOAT:
            continue
        if all(reader.op_type != "MatMul" for reader in node.outputs[0].consumers()):
            continue
        with builder.before(node):
            perm = transpose.attributes["perm"].as_ints()
            value = builder.transpose(builder.cast(source, wide), perm)
        if can_replace(node.outputs[0], value):
            replace(node, [value])
