"""Integer operators whose kernels are missing or give wrong numbers, from exact ones: comparison,
Where, Mul, MatMul and TopK.

ONNX Runtime compares some INT64 vectors as if the low halves were signed, and adds and multiplies
integers along axes in f64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import canonical, is_static, product
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import Dim, attributes_of, const_ints, dtype_of, present, rank_of, shape_of
from hlo2onnx.targets.builder import Decompose, Outputs, TargetBuilder
from hlo2onnx.targets.decompositions.rounded_integers import as_signed, is_rounded, where_rounded

T = oir.DataType


# -- elementwise ---------------------------------------------------------------------------------


def extreme(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """Max(x, y, ...) = Where(x < y, y, x), folded; Min with y < x."""

    def chosen(x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Where(b.Less(x, y) if node.op_type == "Max" else b.Less(y, x), y, x)

    operands = present(node.inputs)
    return reduce(chosen, operands) if len(operands) > 1 else b.Identity(*operands)


def clip(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """Clip(x, low, high) = Min(Max(x, low), high); a bound may be missing."""
    x, low, high = (*node.inputs, None, None)[:3]
    assert x is not None
    bounded = b.Identity(x) if low is None else b.Max(x, low)
    return bounded if high is None else b.Min(bounded, high)


def relu(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """Relu(x) = Max(x, 0)."""
    x = present(node.inputs)[0]
    return b.Max(x, b.scalar_like(0, x))


def sign(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """Sign(x) = (x > 0) - (x < 0)."""
    x = present(node.inputs)[0]
    zero = b.scalar_like(0, x)
    above, below = (b.cast(flags, dtype_of(x)) for flags in (b.Greater(x, zero), b.Less(x, zero)))
    return b.Sub(above, below)


def bounded(b: TargetBuilder, node: oir.Node) -> Outputs:
    """Clip or Relu by Max and Min, where the target has these."""
    dtype = dtype_of(present(node.inputs)[0])
    if not all(b.supports(op_type, dtype) for op_type in ("Max", "Min")):
        return where_rounded(clip)(b, node)
    return (relu if node.op_type == "Relu" else clip)(b, node)


def first_of_top_k(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """ArgMax or ArgMin by TopK, which puts the first of equal elements first."""
    x, given = present(node.inputs)[0], attributes_of(node)
    if not b.supports("TopK", dtype_of(x)) or given.get("select_last_index", 0):
        return None
    axis, largest = given.get("axis", 0) % rank_of(x), int(node.op_type == "ArgMax")
    _, places = b.outputs("TopK", x, b.i64([1]), axis=axis, largest=largest, n_outputs=2)
    return places if given.get("keepdims", 1) else b.squeeze(places, [axis])


# -- reductions ----------------------------------------------------------------------------------


def reduced_axes(node: oir.Node) -> tuple[int, ...] | None:
    """The axes of a reduction that has them as its second input, in ascending order and not
    negative; None if they are computed at run time."""
    x = present(node.inputs)[0]
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
        x, axes = present(node.inputs)[0], reduced_axes(node)
        if axes is None:
            return None
        if not axes:
            return b.Identity(x)
        reduced: oir.Value | None
        if 0 in [shape_of(x)[axis] for axis in axes]:
            reduced = b.expand(b.scalar_like(identity(dtype_of(x)), x), _kept_as_one(x, axes))
        else:
            reduced = function(b, x, axes)
        if reduced is None or node.attributes.get_int("keepdims", True):
            return reduced
        return b.squeeze(reduced, axes)

    return decompose


def _identity_of(op_type: str, dtype: oir.DataType) -> int:
    """The identity of Max or Min."""
    bounds = range_of_type(dtype)
    return bounds.low if op_type == "Max" else bounds.high


def _extreme(
    b: GraphBuilder, x: oir.Value, axes: Sequence[int], *, op_type: str
) -> oir.Value | None:
    """The first element of TopK, axis by axis; where an extent may be 0, the identity is appended.
    None for narrow types with elements: wider ones give the same extreme."""
    dims, dtype = shape_of(x), dtype_of(x)
    if dtype != T.INT64 and is_static([dims[axis] for axis in axes]):
        return None
    largest = int(op_type == "Max")
    for axis in axes:
        if not isinstance(dims[axis], int):
            x = _one_more(b, x, axis, _identity_of(op_type, dtype))
        x, _ = b.outputs("TopK", x, b.i64([1]), axis=axis, largest=largest, n_outputs=2)
    return x


def _one_more(b: GraphBuilder, x: oir.Value, axis: int, item: int) -> oir.Value:
    """x with this number appended along an axis."""
    pads = [0] * (2 * rank_of(x))
    pads[rank_of(x) + axis] = 1
    more = [canonical(dim + int(place == axis)) for place, dim in enumerate(shape_of(x))]
    types = [(dtype_of(x), tuple(more))]
    return b.op("Pad", x, b.i64(pads), b.scalar_like(item, x), types=types)


def _folded_extreme(
    b: GraphBuilder, x: oir.Value, axes: Sequence[int], *, op_type: str
) -> oir.Value | None:
    """Max or Min of the elements along axes of known extents."""
    for axis in axes:
        if not isinstance(shape_of(x)[axis], int):
            return None
        x = _halved(b, x, axis, op_type)
    return x


def _narrow_extreme(
    b: TargetBuilder, x: oir.Value, axes: Sequence[int], *, op_type: str
) -> oir.Value | None:
    """Max or Min of INT32 numbers, for a kernel that computes it in f32: in f64, or folded."""
    if not b.target.flags.reduces_in_f32:
        is_folded = is_rounded(b, f"Reduce{op_type}", dtype_of(x))
        return _folded_extreme(b, x, axes, op_type=op_type) if is_folded else None
    if not b.has_f64:
        return None
    for axis in axes:
        if not isinstance(shape_of(x)[axis], int):
            x = _one_more(b, x, axis, _identity_of(op_type, dtype_of(x)))
    wide = b.cast(x, T.DOUBLE)
    return b.cast(b.op(f"Reduce{op_type}", wide, b.i64(list(axes)), keepdims=1), T.INT32)


def _of_columns(function: Callable[[TargetBuilder, oir.Value], oir.Value | None]) -> Any:
    """A function of (outer, count, inner) that gives (outer, 1, inner), as a function of axes."""

    def reduced(b: TargetBuilder, x: oir.Value, axes: Sequence[int]) -> oir.Value | None:
        dims, is_adjacent = shape_of(x), axes[-1] - axes[0] < len(axes)
        kept = [axis for axis in range(rank_of(x)) if axis not in axes]
        before = [dims[axis] for axis in kept if not is_adjacent or axis < axes[0]]
        after = dims[axes[-1] + 1 :] if is_adjacent else ()
        columns = x if is_adjacent else b.transpose(x, [*kept, *axes])
        groups = (product(before), product(dims[axis] for axis in axes), product(after))
        result = function(b, b.reshape(columns, groups))
        return None if result is None else b.reshape(result, _kept_as_one(x, axes))

    return reduced


@_of_columns
def _sum(b: TargetBuilder, x: oir.Value) -> oir.Value | None:
    """The product with ones: MatMul wraps around, and is several times faster. Where it is computed
    in f32, the last of the cumulative sums."""
    outer, count, inner = shape_of(x)
    if b.target.flags.reduces_in_f32:
        return _sum_of_parts(b, x) if b.has_f64 else None
    one = b.scalar_like(1, x)
    if is_rounded(b, "MatMul", dtype_of(x)):
        is_known = isinstance(count, int)
        return b.slice(b.CumSum(x, b.i64(1)), [count - 1], [count], axes=[1]) if is_known else None
    if inner == 1:
        return b.MatMul(b.reshape(x, (outer, count)), b.expand(one, (count, 1)))
    return b.MatMul(b.expand(one, (1, count)), x)


def _sum_of_parts(b: TargetBuilder, x: oir.Value) -> oir.Value:
    """The sum of up to 2^21 numbers of 32 bits in f64, which is exact; else those of their parts of
    16 bits, for up to 2^37 numbers."""
    count, dtype, rest = shape_of(x)[1], dtype_of(x), x
    is_short = isinstance(count, int) and count <= _FEW_TERMS and dtype == T.INT32
    step, parts = b.scalar(1 << 16, dtype), []
    for _ in range(0 if is_short else dtype.bitwidth // 16 - 1):
        parts.append(b.Mod(rest, step))
        rest = b.Div(b.Sub(rest, parts[-1]), step)

    def sum_of(part: oir.Value) -> oir.Value:
        total = b.ReduceSum(b.cast(part, T.DOUBLE), b.i64([1]), keepdims=0)
        # A node between two Casts, which ONNX Runtime would make one: it saturates.
        return b.unsqueeze(b.cast(total, T.INT64), [1])

    total = sum_of(rest)
    for part in reversed(parts):
        total = b.Add(b.Mul(total, b.scalar_like(1 << 16, total)), sum_of(part))
    return b.cast(total, dtype)


_FEW_TERMS = 1 << 21


@_of_columns
def _product(b: TargetBuilder, x: oir.Value) -> oir.Value:
    """Combines the first half of the elements with the second until one is left; in a Loop if their
    number is not known."""
    outer, count, inner = shape_of(x)
    if isinstance(count, int):
        return _halved(b, x, 1, "Mul")
    dtype, dims = dtype_of(x), (outer, inner)
    trip, going = b.value("trip", T.INT64, []), b.value("going", T.BOOL, [])
    state = b.value("product", dtype, dims)
    with b.subgraph([trip, going, state], "product") as body:
        more = b.Mul(state, b.Gather(x, trip, axis=1))
        body.outputs.extend([b.Identity(going), more])
    ones = b.expand(b.scalar_like(1, x), dims)
    return b.op("Loop", b.extents.scalar(count), None, ones, body=body, types=[(dtype, dims)])


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


def _kept_as_one(x: oir.Value, axes: Sequence[int]) -> list[Dim]:
    return [1 if axis in axes else dim for axis, dim in enumerate(shape_of(x))]


def _sum_of(function: Callable[[GraphBuilder, oir.Value], oir.Value]) -> Decompose:
    """ReduceSum of a function of the elements."""

    def decompose(b: GraphBuilder, node: oir.Node) -> oir.Value:
        return b.ReduceSum(
            function(b, present(node.inputs)[0]), *node.inputs[1:], **attributes_of(node)
        )

    return decompose


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
_EXTREMES: Mapping[str, Decompose] = _extremes(_extreme)
_COMPARISONS: Mapping[str, Decompose] = {
    "Clip": clip,
    "Max": extreme,
    "Min": extreme,
    "Relu": relu,
    "Sign": sign,
    **_EXTREMES,
}
_NARROW: Mapping[str, Decompose] = {
    "Clip": bounded,
    "Relu": where_rounded(relu),
    **_extremes(_narrow_extreme),
}
_RANKINGS = ("ArgMax", "ArgMin", "ReduceMax", "ReduceMin", "TopK")

INTEGER_OPERATORS: Mapping[tuple[str, oir.DataType], Decompose] = {
    **{(op_type, dtype): f for op_type, f in _SUMS.items() for dtype in (T.INT32, T.INT64)},
    **{(op_type, T.INT64): function for op_type, function in _COMPARISONS.items()},
    **{(op, dtype): f for op, f in _EXTREMES.items() for dtype in (T.INT2, T.INT4, T.INT16)},
    **{(op_type, T.UINT64): as_signed for op_type in _RANKINGS},
    **{(op_type, T.INT32): function for op_type, function in _NARROW.items()},
    ("Clip", T.UINT32): bounded,
    **{(op_type, T.INT64): first_of_top_k for op_type in ("ArgMax", "ArgMin")},
}
"""The decomposition of each operator and element type."""
