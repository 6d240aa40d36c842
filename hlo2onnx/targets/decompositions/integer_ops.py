"""Integer operators whose kernels are missing or give wrong numbers, from exact ones: comparison,
Where, Mul, MatMul and TopK.

ONNX Runtime compares some INT64 vectors as if the low halves were signed, and adds and multiplies
integers along axes in f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from itertools import pairwise

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import canonical
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import attributes_of, const_ints, dtype_of, rank_of, shape_of, static_shape
from hlo2onnx.targets.builder import Decompose, Outputs, TargetBuilder
from hlo2onnx.targets.decompositions.rounded_integers import is_rounded, where_rounded

T = oir.DataType


def _first(node: oir.Node) -> oir.Value:
    x = node.inputs[0]
    assert x is not None
    return x


# -- elementwise ---------------------------------------------------------------------------------


def maximum(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """Max(x, y, ...) = Where(x < y, y, x), folded."""
    return _folded(b, node, lambda x, y: b.Where(b.Less(x, y), y, x))


def minimum(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """Min(x, y, ...) = Where(y < x, y, x), folded."""
    return _folded(b, node, lambda x, y: b.Where(b.Less(y, x), y, x))


def _folded(
    b: GraphBuilder, node: oir.Node, function: Callable[[oir.Value, oir.Value], oir.Value]
) -> oir.Value:
    operands = [x for x in node.inputs if x is not None]
    if len(operands) == 1:
        return b.Identity(*operands)
    return reduce(function, operands)


def clip(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """Clip(x, low, high) = Min(Max(x, low), high); a bound may be missing."""
    x, low, high = (*node.inputs, None, None)[:3]
    assert x is not None
    bounded = b.Identity(x) if low is None else b.Max(x, low)
    result: oir.Value = bounded if high is None else b.Min(bounded, high)
    return result


def relu(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """Relu(x) = Max(x, 0)."""
    x = _first(node)
    return b.Max(x, b.scalar_like(0, x))


def sign(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """Sign(x) = (x > 0) - (x < 0)."""
    x = _first(node)
    zero = b.scalar_like(0, x)
    above, below = (b.cast(flags, dtype_of(x)) for flags in (b.Greater(x, zero), b.Less(x, zero)))
    return b.Sub(above, below)


# -- reductions ----------------------------------------------------------------------------------


def reduced_axes(node: oir.Node) -> tuple[int, ...] | None:
    """The axes of a reduction that has them as its second input, in ascending order and not
    negative; None if they are computed at run time."""
    x = _first(node)
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = () if given is None else const_ints(given)
    if axes is None:
        return None
    if not axes:
        return () if node.attributes.get_int("noop_with_empty_axes", 0) else (*range(rank_of(x)),)
    return tuple(sorted(axis % rank_of(x) for axis in axes))


def _over_axes(
    function: Callable[[TargetBuilder, oir.Value, Sequence[int]], oir.Value | None],
    identity: Callable[[oir.DataType], int],
) -> Decompose:
    """Returns a decomposition that calls function(b, x, axes), which keeps the reduced axes as 1.
    A reduction of no elements gives the identity."""

    def decompose(b: TargetBuilder, node: oir.Node) -> Outputs:
        x, axes = _first(node), reduced_axes(node)
        if axes is None:
            return None
        if not axes:
            return b.Identity(x)
        dims = static_shape(x)
        reduced: oir.Value | None
        if dims is not None and 0 in [dims[axis] for axis in axes]:
            reduced = b.expand(b.scalar_like(identity(dtype_of(x)), x), _kept_as_one(dims, axes))
        else:
            reduced = function(b, x, axes)
        if reduced is None or node.attributes.get_int("keepdims", True):
            return reduced
        return b.squeeze(reduced, axes)

    return decompose


def _identity_of(op_type: str, dtype: oir.DataType) -> int:
    """What Max or Min of no integers is."""
    bounds = range_of_type(dtype)
    return bounds.low if op_type == "Max" else bounds.high


def _extreme(b: GraphBuilder, x: oir.Value, axes: Sequence[int], *, op_type: str) -> oir.Value:
    """The first of TopK, one axis after the other."""
    largest = int(op_type == "Max")
    for axis in axes:
        if not isinstance(shape_of(x)[axis], int):  # TopK needs an element
            x = _one_more(b, x, axis, _identity_of(op_type, dtype_of(x)))
        x, _ = b.outputs("TopK", x, b.i64([1]), axis=axis, largest=largest, n_outputs=2)
    return x


def _narrow_extreme(
    b: GraphBuilder, x: oir.Value, axes: Sequence[int], *, op_type: str
) -> oir.Value | None:
    """The extreme in INT32, bounded by the narrow type: of no elements it is INT32's bound, which
    the cast back would wrap to 0 or -1. None if there always are elements."""
    dims, dtype = shape_of(x), dtype_of(x)
    if all(isinstance(dims[axis], int) for axis in axes):
        return None
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(dims))
    operands = b.cast(x, T.INT32), b.i64(axes)
    reduced = b.op(f"Reduce{op_type}", *operands, keepdims=1, types=[(T.INT32, kept)])
    bound = _identity_of(op_type, dtype)
    return b.cast(b.op(op_type, reduced, b.scalar(bound, T.INT32)), dtype)


def _folded_extreme(
    b: GraphBuilder, x: oir.Value, axes: Sequence[int], *, op_type: str
) -> oir.Value | None:
    """Max or Min of the elements along axes of known extents."""
    for axis in axes:
        if not isinstance(shape_of(x)[axis], int):
            return None
        x = _halved(b, x, axis, op_type)
    return x


def _sum(b: TargetBuilder, x: oir.Value, axes: Sequence[int]) -> oir.Value:
    """The product with ones: MatMul wraps around, and is several times faster. Where it is computed
    in f32, the last of the cumulative sums."""
    dims = static_shape(x)
    if dims is None:
        return reduce(partial(_sum_along, b), axes, x)
    outer, count, inner = _groups(dims, axes)
    x = _grouped(b, x, axes)
    one = b.scalar_like(1, x)
    if is_rounded(b, "MatMul", dtype_of(x)):
        total = b.slice(b.CumSum(x, b.i64(1)), [count - 1], [count], axes=[1])
    elif inner == 1:
        total = b.MatMul(b.reshape(x, (outer, count)), b.expand(one, (count, 1)))
    else:
        total = b.MatMul(b.expand(one, (1, count)), x)
    return b.reshape(total, _kept_as_one(dims, axes))


def _sum_along(b: GraphBuilder, x: oir.Value, axis: int) -> oir.Value:
    """The sum along an axis of any extent, known or not."""
    order = [other for other in range(rank_of(x)) if other != axis] + [axis]
    last = b.transpose(x, order)
    extent = shape_of(x)[axis]
    size = b.Shape(x, start=axis, end=axis + 1)
    column = b.Concat(size, b.i64([1]), axis=0)
    ones = b.op("Expand", b.scalar_like(1, x), column, types=[(dtype_of(x), (extent, 1))])
    total = b.op("MatMul", last, ones, types=[(dtype_of(x), (*shape_of(last)[:-1], 1))])
    return b.transpose(total, [order.index(other) for other in range(rank_of(x))])


def _product(b: GraphBuilder, x: oir.Value, axes: Sequence[int]) -> oir.Value:
    """The first half of the elements by the second, until one is left."""
    dims = static_shape(x)
    if dims is None:
        return reduce(partial(_product_along, b), axes, x)
    product = _halved(b, _grouped(b, x, axes), 1, "Mul")
    return b.reshape(product, _kept_as_one(dims, axes))


def _product_along(b: GraphBuilder, x: oir.Value, axis: int) -> oir.Value:
    """The product along an axis of any extent, known or not, 0 among them."""
    extent = shape_of(x)[axis]
    if isinstance(extent, int) and extent:
        return _halved(b, x, axis, "Mul")
    return _halved_in_loop(b, x, axis)


def _halved(b: GraphBuilder, x: oir.Value, axis: int, op_type: str) -> oir.Value:
    """The elements along an axis combined by an operator, half with half."""
    count = shape_of(x)[axis]
    assert isinstance(count, int)
    while count > 1:
        half = count // 2
        first, second, rest = (
            b.slice(x, [start], [limit], axes=[axis])
            for start, limit in ((0, half), (half, 2 * half), (2 * half, count))
        )
        x = b.op(op_type, first, second)
        if count % 2:
            x = b.concat([x, rest], axis=axis)
        count -= half
    return x


def _halved_in_loop(b: GraphBuilder, x: oir.Value, axis: int) -> oir.Value:
    """The product along an axis by a Loop that multiplies as `_halved` does. A 1 is appended, as
    there may be no elements."""
    dtype, padded = dtype_of(x), _one_more(b, x, axis, 1)
    unknown = tuple(
        oir.SymbolicDim(None) if place == axis else dim for place, dim in enumerate(shape_of(x))
    )
    trip, going = b.value("trip", T.INT64, []), b.value("going", T.BOOL, [])
    state = b.value("halved", dtype, unknown)
    place, one = b.i64([axis]), b.i64([1])
    with b.subgraph([trip, going, state], "halving") as body:
        count = b.Shape(state, start=axis, end=axis + 1)
        half = b.Div(count, b.i64([2]))
        bounds = b.i64([0]), half, b.Add(half, half), count
        first, second, rest = (
            b.op("Slice", state, *pair, place, types=[(dtype, unknown)])
            for pair in pairwise(bounds)
        )
        product = b.op("Mul", first, second, types=[(dtype, unknown)])
        joined = b.op("Concat", product, rest, axis=axis, types=[(dtype, unknown)])
        body.outputs.append(b.squeeze(b.Greater(b.Sub(count, half), one), [0]))
        body.outputs.append(joined)
    size = b.Shape(padded, start=axis, end=axis + 1)
    several = b.squeeze(b.Greater(size, one), [0])
    kept = tuple(1 if place == axis else dim for place, dim in enumerate(shape_of(x)))
    (whole,) = b.node("Loop", [None, several, padded], {"body": body}, [(dtype, unknown)])
    whole.shape = oir.Shape(kept)
    return whole


def _one_more(b: GraphBuilder, x: oir.Value, axis: int, item: int) -> oir.Value:
    """x with this number appended along an axis."""
    pads = [0] * (2 * rank_of(x))
    pads[rank_of(x) + axis] = 1
    more = [canonical(dim + int(place == axis)) for place, dim in enumerate(shape_of(x))]
    types = [(dtype_of(x), tuple(more))]
    return b.op("Pad", x, b.i64(pads), b.scalar_like(item, x), types=types)


def _groups(dims: Sequence[int], axes: Sequence[int]) -> tuple[int, int, int]:
    """The number of elements before, along and after the reduced axes. Axes that are not adjacent
    are moved to the end."""
    count = math.prod(dims[axis] for axis in axes)
    kept = [axis for axis in range(len(dims)) if axis not in axes]
    inner = math.prod(dims[axes[-1] + 1 :]) if _adjacent(axes) else 1
    outer = math.prod(dims[axis] for axis in kept if not _adjacent(axes) or axis < axes[0])
    return outer, count, inner


def _adjacent(axes: Sequence[int]) -> bool:
    return axes[-1] - axes[0] < len(axes)


def _grouped(b: GraphBuilder, x: oir.Value, axes: Sequence[int]) -> oir.Value:
    """x with the extents of `_groups`."""
    dims = [int(dim) for dim in static_shape(x) or ()]
    if not _adjacent(axes):
        x = b.transpose(x, [*(axis for axis in range(len(dims)) if axis not in axes), *axes])
    return b.reshape(x, _groups(dims, axes))


def _kept_as_one(dims: Sequence[int], axes: Sequence[int]) -> list[int]:
    return [1 if axis in axes else dim for axis, dim in enumerate(dims)]


def _sum_of(function: Callable[[GraphBuilder, oir.Value], oir.Value]) -> Decompose:
    """ReduceSum of a function of the elements."""

    def decompose(b: GraphBuilder, node: oir.Node) -> oir.Value:
        return b.ReduceSum(function(b, _first(node)), *node.inputs[1:], **attributes_of(node))

    return decompose


# -- order of UINT64 -----------------------------------------------------------------------------


def _as_int64(b: GraphBuilder, node: oir.Node) -> Outputs:
    """The operator on INT64 numbers in the same order: those with the top bit flipped."""

    def flipped(x: oir.Value) -> oir.Value:
        return b.BitwiseXor(x, b.scalar(np.iinfo(np.int64).min, T.INT64))

    x = flipped(b.cast(_first(node), T.INT64))
    types = [
        (T.INT64 if dtype_of(y) == T.UINT64 else dtype_of(y), shape_of(y)) for y in node.outputs
    ]
    made = b.copy_of(node, [x, *node.inputs[1:]], types)
    return [
        b.cast(flipped(y), T.UINT64) if dtype_of(old) == T.UINT64 else y
        for y, old in zip(made, node.outputs, strict=True)
    ]


def _extremes(function: Callable[..., oir.Value | None]) -> dict[str, Decompose]:
    """The decompositions of ReduceMax and ReduceMin by a function of their operator."""
    return {
        f"Reduce{name}": _over_axes(partial(function, op_type=name), partial(_identity_of, name))
        for name in ("Max", "Min")
    }


# -- tables --------------------------------------------------------------------------------------

_SUMS: Mapping[str, Decompose] = {
    "ReduceL1": _sum_of(lambda b, x: b.Abs(x)),
    "ReduceProd": _over_axes(_product, lambda dtype: 1),
    "ReduceSum": _over_axes(_sum, lambda dtype: 0),
    "ReduceSumSquare": _sum_of(lambda b, x: b.Mul(x, x)),
}
_COMPARISONS: Mapping[str, Decompose] = {
    "Clip": clip,
    "Max": maximum,
    "Min": minimum,
    "Relu": relu,
    "Sign": sign,
    **_extremes(_extreme),
}
_ROUNDED: Mapping[str, Decompose] = {"Clip": clip, "Relu": relu, **_extremes(_folded_extreme)}
_NARROW: Mapping[str, Decompose] = _extremes(_narrow_extreme)
_RANKINGS = ("ArgMax", "ArgMin", "ReduceMax", "ReduceMin", "TopK")

INTEGER_OPERATORS: Mapping[tuple[str, oir.DataType], Decompose] = {
    **{(op_type, dtype): f for op_type, f in _SUMS.items() for dtype in (T.INT32, T.INT64)},
    **{(op_type, T.INT64): function for op_type, function in _COMPARISONS.items()},
    **{(op, dtype): f for op, f in _NARROW.items() for dtype in (T.INT2, T.INT4, T.INT16)},
    **{(op_type, T.UINT64): _as_int64 for op_type in _RANKINGS},
    **{(op_type, T.INT32): where_rounded(function) for op_type, function in _ROUNDED.items()},
    ("Clip", T.UINT32): where_rounded(clip),
}
"""What these operators on these element types are replaced by."""
