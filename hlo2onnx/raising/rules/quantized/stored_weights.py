"""Weights that are stored in fewer bits than they are computed with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import (
    Shape,
    dtype_of,
    is_constant,
    rank_of,
    shape_of,
    size_of,
    static_shape,
)
from hlo2onnx.ir.weights import SMALL_ELEMENTS
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    both_orders,
    first,
    maker_of,
    source_of,
)

T = oir.DataType
_SOURCES = {"Mul": frozenset({"Cast", "Sub"}), "Reshape": frozenset({"Mul"})}

_STORED = frozenset({T.INT4, T.UINT4, T.INT8, T.UINT8, T.INT16, T.UINT16})
"""Integers that f32 holds, and their differences too."""

_BLOCKED_OPSET = 21
"""DequantizeLinear has blocks from this opset on."""


def moved_before_cast(node: oir.Node, cast: oir.Node, b: Rewriter) -> oir.Value:
    """Move(Cast(c)) as Cast(Move(c)), for a constant c of a narrower type.

    Raises:
        Refusal: It is something else, or others read what is cast.
    """
    stored, wide = first(cast), dtype_of(node.outputs[0])
    need(is_constant(stored), "it does not cast a constant", stored)
    need(dtype_of(stored).bitwidth < wide.bitwidth, "it is not stored in fewer bits", stored)
    takes_part = node.op_type in ("Gather", "Slice")
    need(takes_part or len(first(node).uses()) == 1, "the Cast has other readers", cast)
    if takes_part:
        need(b.supports(node.op_type, dtype_of(stored)), "no kernel moves its type", stored)
    types = [(dtype_of(stored), shape_of(node.outputs[0]))]
    return b.cast(b.like(node, [stored, *node.inputs[1:]], types), wide)


@dataclass(frozen=True)
class ScaledIntegers:
    """(q - zero) * scale, of constants, in f32. Their shapes broadcast to that of q."""

    q: oir.Value
    scale: oir.Value
    zero: oir.Value | None


class DequantizeWeights(Rule):
    """Mul(Sub(Cast(q), z), s) -> DequantizeLinear(q, s, z), likewise without z

    Legal for constants, q of up to 16 bits, and z whose numbers q's type holds: the difference of
    both is exact in f32, and the product is rounded once. s and z are numbers, or have one for
    each index along one axis, or, where Reshape joins two axes of the product, for each index
    along the first of them: then they are those of blocks.
    """

    name = "dequantize-weights"
    anchors = frozenset({"Mul", "Reshape"})
    sources = _SOURCES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        maker = node if node.op_type == "Mul" else maker_of(first(node), "Mul")
        maker = needed(maker, "no product is reshaped", node)
        for product in _products(maker):
            q, scale = product.q, product.scale
            has_kernel = b.target.supports_pair("DequantizeLinear", dtype_of(q), T.FLOAT, b.opset)
            need(has_kernel, "no kernel", q)
            need(shape_of(q) == shape_of(maker.outputs[0]), "a scale determines the shape", scale)
            whole = needed(static_shape(node.outputs[0]), "its shape is dynamic", node)
            repeated, dims = _before_repeat(scale)
            if node is maker and repeated is not None:
                zero = None if product.zero is None else _before_repeat(product.zero)[0]
                need((zero is None) == (product.zero is None), "zero points in other blocks", q)
                return dequantized_blocks(b, ScaledIntegers(q, repeated, zero), dims, whole)
            need(is_constant(scale), "the scale is computed", scale)
            return (
                dequantized(b, product)
                if node is maker
                else dequantized_blocks(b, product, shape_of(q), whole)
            )
        raise Refusal("no stored weight is scaled", node)


def _before_repeat(value: oir.Value) -> tuple[oir.Value | None, Shape]:
    """x and the shape of Expand(x) of Reshape(Expand(x)), as `jnp.repeat` makes it, for a constant
    x that Casts may convert before and after; None if there is none."""
    cast = maker_of(value, "Cast")
    whole = source_of(value if cast is None else first(cast), "Reshape")
    source = source_of(whole, "Expand")
    if source is None or whole is None or not is_constant(source_of(source, "Cast") or source):
        return None, ()
    return source, shape_of(whole)


def _products(node: oir.Node) -> Iterator[ScaledIntegers]:
    for value, scale in both_orders(node):
        if dtype_of(scale) == T.FLOAT and (stored := stored_integers(value)) is not None:
            yield ScaledIntegers(stored[0], scale, stored[1])


def stored_integers(value: oir.Value) -> tuple[oir.Value, oir.Value | None] | None:
    """q and zero of q - zero, of integers that f32 holds; None for other values."""
    zero, difference = None, maker_of(value, "Sub")
    if difference is None and (cast := maker_of(value, "Cast")) is not None:
        difference = maker_of(first(cast), "Sub")
    if difference is not None:
        value, zero = first(difference), difference.inputs[1]
        if dtype_of(value) not in (T.FLOAT, T.INT32):
            return None
    cast = maker_of(value, "Cast")
    q = None if cast is None else first(cast)
    if q is None or not is_constant(q) or dtype_of(q) not in _STORED:
        return None
    return (q, zero) if (size_of(q) or 0) > SMALL_ELEMENTS else None


def zero_points(array: np.ndarray, stored: oir.DataType) -> np.ndarray:
    """Zero points in the stored type.

    Raises:
        Refusal: One is not among the type's numbers.
    """
    numbers, bounds = array.astype(np.float64), range_of_type(stored)
    inside = (numbers == np.rint(numbers)) & (numbers >= bounds.low) & (numbers <= bounds.high)
    need(inside.all(), "the zero point is not one of the type's numbers")
    return numbers.astype(np.int32).astype(stored.numpy())


def dequantized(b: Rewriter, product: ScaledIntegers) -> oir.Value:
    """The product as DequantizeLinear, with scales along one axis or a single one."""
    q, dims = product.q, shape_of(product.scale)
    own = [axis - len(dims) for axis, dim in enumerate(dims) if dim != 1]
    need(len(own) <= 1, "scales along several axes", product.scale)
    axis = rank_of(q) + own[0] if own else None
    need(axis is None or axis >= 0, "a scale determines the shape", product.scale)

    def flat(array: np.ndarray) -> np.ndarray:
        return array.reshape(-1 if own else ())

    shape = (dims[own[0]],) if own else ()
    zero = _zero(b, product, flat, shape)
    scale = b.derived(flat, product.scale, is_moved=True)
    return b.DequantizeLinear(q, scale, *([] if zero is None else [zero]), axis=axis)


def dequantized_blocks(
    b: Rewriter, product: ScaledIntegers, parts: Shape, whole: tuple[int, ...]
) -> oir.Value:
    """The dequantized product.

    Args:
        parts: The shape of q in which the scales broadcast.
        whole: The same with two axes joined.
    """
    q, dims = product.q, [dim for dim in parts if isinstance(dim, int)]
    need(b.opset >= _BLOCKED_OPSET, "the opset has no blocks", q)
    need(len(dims) == len(whole) + 1, "no axis is split into blocks", q)
    scales = (1,) * (len(dims) - rank_of(product.scale)) + shape_of(product.scale)
    places = [
        axis
        for axis in range(len(whole))
        if whole == (*dims[:axis], dims[axis] * dims[axis + 1], *dims[axis + 2 :])
        and scales == (*dims[: axis + 1], 1, *dims[axis + 2 :])
    ]
    need(places, "its scales are not those of blocks along an axis", product.scale)
    axis = places[0]
    shape = (*dims[: axis + 1], *dims[axis + 2 :])

    def joined(array: np.ndarray) -> np.ndarray:
        return array.reshape(shape)

    zero = _zero(b, product, joined, shape)
    parameters = [b.derived(joined, product.scale, is_moved=True)]
    parameters += [] if zero is None else [zero]
    return b.DequantizeLinear(
        b.reshape(q, whole), *parameters, axis=axis, block_size=dims[axis + 1]
    )


def _zero(
    b: Rewriter,
    product: ScaledIntegers,
    placed: Callable[[np.ndarray], np.ndarray],
    shape: tuple[object, ...],
) -> oir.Value | None:
    """The zero points beside the scales, in the type of q.

    Raises:
        Refusal: They are computed, of another shape, or not numbers of that type.
    """
    zero, stored = product.zero, dtype_of(product.q)
    if zero is None:
        return None
    cast = maker_of(zero, "Cast")
    source = zero if cast is None else first(cast)
    need(is_constant(source), "the zero point is computed", zero)
    same = rank_of(source) == 0 or shape_of(source) == shape_of(product.scale)
    need(same, "the zero points differ in shape from the scales", zero)

    def inside(array: np.ndarray) -> np.ndarray:
        points = zero_points(array, stored)
        return placed(points if array.ndim else np.full(shape, points))  # type: ignore[call-overload]

    return b.derived(inside, source)
