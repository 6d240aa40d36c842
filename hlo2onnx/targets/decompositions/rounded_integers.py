"""INT32 and UINT32 operators that a runtime computes in f32, as operators that it computes in
integers: Add, Sub, Mul, Max, Min, CumSum and those on bits.

Such a runtime is right within limits, see `Target.is_limited`. These functions give None for other
runtimes. A difference that wraps around is 0 only of equal numbers, and rounding keeps 0 apart from
all other integers: that is what the comparisons ask.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import FLOATS, attributes_of, const_of, dtype_of, present, rank_of, shape_of
from hlo2onnx.targets.builder import Decompose, Outputs, TargetBuilder
from hlo2onnx.targets.decompositions.bits import BIT_OPERATORS
from hlo2onnx.targets.target import node_key

T = oir.DataType

RIGHT_HERE: Final = "hlo2onnx.right_here"
"""Key of `onnx_ir.Node.meta`: the kernel's fault cannot occur here, or is corrected after it. The
code that makes the node notes it."""


def is_rounded(b: TargetBuilder, op_key: str, dtype: oir.DataType) -> bool:
    """Whether the target computes the operator on these integers in f32."""
    return b.target.flags.narrows_i64 and b.target.is_limited(op_key, dtype, b.opset)


def where_rounded(decompose: Decompose) -> Decompose:
    """The decomposition for targets that compute the operator in f32; None for others."""

    def decomposed(b: TargetBuilder, node: oir.Node) -> Outputs:
        rounded = is_rounded(b, node_key(node), dtype_of(present(node.inputs)[0]))
        return decompose(b, node) if rounded else None

    decomposed.__module__ = decompose.__module__
    return decomposed


def right_here(value: oir.Value) -> oir.Value:
    """Notes of the node that made a value that its kernel is right; returns the value."""
    node = value.producer()
    assert node is not None
    node.meta[RIGHT_HERE] = True
    return value


# -- comparisons -----------------------------------------------------------------------------------


def compared(b: TargetBuilder, node: oir.Node) -> oir.Value:
    """x >= y as Max(x, y) - x = 0, and the other comparisons from it."""
    x, y = present(node.inputs)
    if dtype_of(x) == T.UINT32:
        is_order = node.op_type != "Equal"
        first, second = (_signed(b, v) if is_order else b.cast(v, T.INT32) for v in (x, y))
        return b.op(node.op_type, first, second)
    if node.op_type == "Equal":
        return _is_zero(b, b.Sub(x, y))
    if node.op_type in ("LessOrEqual", "Greater"):
        x, y = y, x
    at_least = _is_zero(b, b.Sub(b.Max(x, y), x))
    return at_least if node.op_type.endswith("OrEqual") else b.Not(at_least)


def _is_zero(b: TargetBuilder, x: oir.Value) -> oir.Value:
    return b.Equal(x, b.scalar_like(0, x))


_SIGNED: Final = {T.UINT32: T.INT32, T.UINT64: T.INT64}


def _signed(b: TargetBuilder, x: oir.Value) -> oir.Value:
    """UINT32 or UINT64 numbers as signed ones in the same order: those with the top bit flipped."""
    return _with_low_added(b, b.cast(x, _SIGNED[dtype_of(x)]))


def _with_low_added(b: TargetBuilder, x: oir.Value) -> oir.Value:
    return b.Add(x, b.scalar_like(range_of_type(dtype_of(x)).low, x))


def as_signed(b: TargetBuilder, node: oir.Node) -> Outputs:
    """An operator on UINT32 or UINT64 that depends on the order, on signed numbers in the same
    order."""
    if node.op_type.startswith("Scatter") and not node_key(node).endswith(("[max]", "[min]")):
        return None
    inputs = [x if x is None or dtype_of(x) not in _SIGNED else _signed(b, x) for x in node.inputs]
    types = [(_SIGNED.get(dtype_of(y), dtype_of(y)), shape_of(y)) for y in node.outputs]
    made = b.copy_of(node, inputs, types)
    return [
        b.cast(_with_low_added(b, y), dtype_of(old)) if dtype_of(old) in _SIGNED else y
        for y, old in zip(made, node.outputs, strict=True)
    ]


def sign_of_unsigned(b: TargetBuilder, node: oir.Node) -> oir.Value:
    """Sign(x) = (x != 0)."""
    (x,) = present(node.inputs)
    return b.cast(b.Not(_is_zero(b, x)), dtype_of(x))


# -- shifts ----------------------------------------------------------------------------------------

_HALF: Final = 16
_WORD: Final = 32
_DIGITS: Final = 24
"""Bits of the whole numbers that f32 holds."""


def shifted(b: TargetBuilder, node: oir.Node) -> Outputs:
    """BitShift of UINT32 as products and quotients of INT32 with powers of two.

    To the right it divides parts of x that f32 holds, and removes the copies of the top bit.
    """
    if not b.target.flags.narrows_i64:
        return BIT_OPERATORS["BitShift", T.UINT32](b, node)
    x, count = present(node.inputs)
    dims, known = shape_of(node.outputs[0]), const_of(count)
    amount = int(known.reshape(())) % _WORD if known is not None and known.size == 1 else None
    bits = b.cast(x, T.INT32)
    if node.attributes.get_string("direction") == "LEFT":
        made = _to_the_left(b, bits, b.cast(count, T.INT32) if amount is None else amount)
    elif amount is None:
        made = _to_the_right(b, bits, b.cast(count, T.INT32))
    else:
        made = _to_the_right_by(b, bits, amount)
    return b.cast(b.expand(made, dims), T.UINT32)


def _to_the_left(b: TargetBuilder, x: oir.Value, count: oir.Value | int) -> oir.Value:
    powers = (1 << np.arange(_WORD, dtype=np.uint32)).view(np.int32)
    if isinstance(count, int):
        factor = b.scalar_like(int(powers[count]), x)
    else:
        factor = b.Gather(b.const(powers), _bits(b, count, 0, 5), axis=0)
    return b.Mul(x, factor)


def _to_the_right(b: TargetBuilder, x: oir.Value, count: oir.Value) -> oir.Value:
    """By 0 to 15 places, and then by 16 where the count has this bit."""
    high, low = _to_the_right_by(b, x, _HALF), _bits(b, x, 0, _HALF)
    part = _bits(b, count, 0, 4)
    rest = b.Sub(b.scalar_like(_HALF, count), part)
    power = _to_the_left(b, b.scalar_like(1, x), part)
    moved = _bits(b, right_here(b.Div(low, power)), 0, _HALF)
    near = b.Add(_to_the_left(b, high, rest), moved)
    is_near = _is_zero(b, _bits(b, count, 4, 5))
    return b.Where(is_near, near, _to_the_right_by(b, near, _HALF))


def _to_the_right_by(b: TargetBuilder, x: oir.Value, count: int) -> oir.Value:
    if not count:
        return x
    if count == _WORD - 1:
        return b.cast(b.Less(x, b.scalar_like(0, x)), T.INT32)
    low = _WORD - _DIGITS
    if count >= low:
        return _quotient_of_bits(b, _bits(b, x, count, _WORD), count, _WORD)
    high = _quotient_of_bits(b, _bits(b, x, low, _WORD), count, _WORD)
    rest = _quotient_of_bits(b, _bits(b, x, 0, low), count, low)
    return b.Add(high, rest)


def _quotient_of_bits(b: TargetBuilder, x: oir.Value, count: int, stop: int) -> oir.Value:
    """x / 2^count, exactly, of bits before `stop`, without copies of the top bit.

    The mask also keeps the quotient apart from what follows: runtimes compute a chain of operators
    in f32 if they have one of them only there.
    """
    made = b.Div(x, b.scalar_like(1 << count, x))
    return _bits(b, right_here(made), 0, stop - count)


def _bits(b: TargetBuilder, x: oir.Value, start: int, stop: int) -> oir.Value:
    """x with 0 in the place of other bits than these."""
    mask = np.array((1 << stop) - (1 << start), np.uint32).view(np.int32)
    return b.BitwiseAnd(x, b.const(mask))


# -- division --------------------------------------------------------------------------------------

_CAUTION: Final = 1 - 2.0**-20
"""Quotients of f32 times this are not greater than the exact ones."""


def divided(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """x / y, truncated; the divisor is not 0."""
    x, y = present(node.inputs)
    if dtype_of(x) == T.UINT32:
        return _quotient(b, x, y)
    zero = b.scalar_like(0, x)
    first, second = (b.cast(b.Where(b.Less(v, zero), b.Neg(v), v), T.UINT32) for v in (x, y))
    size = b.cast(_quotient(b, first, second), T.INT32)
    is_negative = b.Xor(b.Less(x, zero), b.Less(y, zero))
    return b.Where(is_negative, b.Neg(size), size)


def _quotient(b: TargetBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    """x / y of UINT32 numbers.

    The first step leaves a remainder below y + 2^13, the second one below 2 y.
    """
    divisor, rest, total = b.cast(y, T.FLOAT), x, None
    for _ in range(2):
        estimate = b.Div(b.cast(rest, T.FLOAT), divisor)
        caution = b.scalar(_CAUTION, T.FLOAT)
        part = b.cast(b.Floor(b.Mul(estimate, caution)), T.UINT32)
        rest = b.Sub(rest, b.Mul(part, y))
        total = part if total is None else b.Add(total, part)
    more = b.cast(b.GreaterOrEqual(rest, y), T.UINT32)
    return b.Add(total, more)


def modulo(b: TargetBuilder, node: oir.Node) -> oir.Value:
    """x - (x / y) y; with `fmod` of 0 it takes the sign of y."""
    x, y = present(node.inputs)
    rest = b.Sub(x, b.Mul(b.Div(x, y), y))
    if dtype_of(x) == T.UINT32 or node.attributes.get_int("fmod", False):
        return rest
    zero = b.scalar_like(0, x)
    differs = b.Xor(b.Less(rest, zero), b.Less(y, zero))
    is_other = b.And(differs, b.Not(b.Equal(rest, zero)))
    return b.Where(is_other, b.Add(rest, y), rest)


# -- casts -----------------------------------------------------------------------------------------


def cast_rounded(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """A Cast whose kernel is right within limits: to bool, and between UINT32 and floats."""
    (x,) = present(node.inputs)
    source, result = dtype_of(x), dtype_of(node.outputs[0])
    if result in _HALVES:
        is_held_in_32_bits = b.target.flags.narrows_i64 and source not in FLOATS
        return _wrapped(b, b.cast(x, T.INT32), result) if is_held_in_32_bits else None
    if not b.target.is_limited_pair("Cast", source, result, b.opset):
        return None
    if result == T.BOOL:
        return b.Not(_is_zero(b, x))  # NaN and the least integer are not 0
    if source in FLOATS and result == T.UINT32:
        return _unsigned_of(b, x)
    if source == T.UINT32 and result in (T.FLOAT, T.FLOAT16):
        return b.cast(_float_of(b, b.cast(x, T.INT32)), result)
    return None


def _wrapped(b: TargetBuilder, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """INT32 numbers as integers of 16 bits, for targets that hold these in 32."""
    low = _bits(b, x, 0, _HALF)
    if dtype == T.INT16:
        top = b.scalar_like(1 << (_HALF - 1), x)
        low = b.Sub(b.BitwiseXor(low, top), top)
    return right_here(b.op("Cast", low, to=dtype))


def _unsigned_of(b: TargetBuilder, x: oir.Value) -> oir.Value:
    """Floats as UINT32: those from 2^31 on less 2^31, as the casts to INT32 end there."""
    half = b.scalar_like(2.0**31, x)
    is_low = b.Less(x, half)
    low = b.cast(b.Where(is_low, x, b.Sub(x, half)), T.INT32)
    return b.cast(b.Where(is_low, low, _with_low_added(b, low)), T.UINT32)


def _float_of(b: TargetBuilder, x: oir.Value) -> oir.Value:
    """The bits of UINT32 as floats: twice the half of those with the top bit. The half keeps
    whether a bit was lost, so that it is rounded in the same way."""
    half = b.BitwiseOr(_to_the_right_by(b, x, 1), _bits(b, x, 0, 1))
    large, small = b.cast(half, T.FLOAT), b.cast(x, T.FLOAT)
    is_small = b.GreaterOrEqual(x, b.scalar_like(0, x))
    return b.Where(is_small, small, b.Add(large, large))


# -- choice ----------------------------------------------------------------------------------------


def chosen(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """Where(c, x, y) = y ^ ((x ^ y) & -c), for targets that compute it in f32 after comparisons.
    Operators on bits are never computed in f32."""
    if not b.target.flags.fuses_comparisons:
        return None
    condition, x, y = present(node.inputs)
    mask = b.Neg(b.cast(condition, T.INT32))
    return b.BitwiseXor(y, b.BitwiseAnd(b.BitwiseXor(x, y), mask))


# -- borders ---------------------------------------------------------------------------------------


def padded(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """Pad(x, value) as x between expanded values, where no integer type has a kernel."""
    x, pads, value = (*node.inputs, None)[:3]
    assert x is not None
    if is_rounded(b, "Pad", dtype_of(x)):
        return _padded_with_zero(b, node)
    counts = const_of(pads) if node_key(node) == "Pad" and len(node.inputs) < 4 else None
    is_carried = any(b.supports("Pad", dtype) for dtype in _WHOLE)
    if counts is None or (counts < 0).any() or is_carried:
        return None
    item = b.scalar_like(0, x) if value is None else b.reshape(value, ())
    for axis in range(rank_of(x)):
        parts = [x]
        for at, count in ((0, int(counts[axis])), (2, int(counts[axis + rank_of(x)]))):
            dims = (*shape_of(x)[:axis], count, *shape_of(x)[axis + 1 :])
            if count:
                parts.insert(at, b.expand(item, dims))
        x = b.concat(parts, axis=axis) if len(parts) > 1 else x
    return b.Identity(x) if x is node.inputs[0] else x


def _padded_with_zero(b: TargetBuilder, node: oir.Node) -> oir.Value:
    """Pad(x, v) = Pad(x - v, 0) + v, for targets that round the new elements."""
    x, pads, value, axes = (*node.inputs, None, None)[:4]
    assert x is not None
    given = attributes_of(node)
    known = b.scalar_like(0, x) if value is None else value
    array, rest = const_of(known), [] if axes is None else [axes]
    if array is not None and abs(int(array.reshape(()))) < 1 << _DIGITS:
        return right_here(b.op("Pad", x, pads, known, *rest, **given))
    made = b.op("Pad", b.Sub(x, known), pads, b.scalar_like(0, x), *rest, **given)
    return b.Add(right_here(made), known)


# -- sums ------------------------------------------------------------------------------------------


def product_of_matrices(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """MatMul(x, y) = ReduceSum(x[..., :, None] * y[..., None, :, :]), of matrices that are not too
    large for that."""
    x, y = present(node.inputs)
    rows, columns = shape_of(x), shape_of(node.outputs[0])
    if rank_of(x) < 2 or rank_of(y) < 2:
        return None
    sizes = [size for size in (rows[-1], *columns) if isinstance(size, int)]
    if len(sizes) <= len(columns) or math.prod(sizes) > _LARGEST_PRODUCT:
        return None
    terms = b.Mul(b.unsqueeze(x, [rank_of(x)]), b.unsqueeze(y, [rank_of(y) - 2]))
    return b.ReduceSum(terms, b.i64([-2]), keepdims=0)


def product_of_integers(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """The same where the target has no MatMul that wraps around or holds the sums of integers."""
    dtype = dtype_of(present(node.inputs)[0])
    is_exact = all(b.supports(op_type, dtype) for op_type in ("Mul", "ReduceSum"))
    others = b.has_f64 or any(b.supports("MatMul", t) for t in (T.INT32, T.INT64, T.UINT32))
    is_wanted = is_rounded(b, "MatMul", dtype) or (is_exact and not others)
    return product_of_matrices(b, node) if is_wanted else None


_LARGEST_PRODUCT: Final = 1 << 24
"""Terms of a product of matrices that may be in memory at a time."""

# -- tables ----------------------------------------------------------------------------------------

_HALVES = (T.INT16, T.UINT16)
_WHOLE = (T.INT8, *_HALVES, T.INT32, T.INT64, T.UINT8, T.UINT32, T.UINT64)
_INTEGERS = (T.INT8, *_HALVES, T.INT32, T.UINT32)
_COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_ORDERS = ("ArgMax", "ArgMin", "Max", "Min", "ReduceMax", "ReduceMin", "ScatterElements",
           "ScatterND", "TopK")  # fmt: skip
_BOTH: Mapping[str, Decompose] = {
    **dict.fromkeys(_COMPARISONS, compared),
    "Div": divided,
    "Mod": modulo,
}
_UNSIGNED: Mapping[str, Decompose] = {
    **dict.fromkeys(_ORDERS, as_signed),
    "Abs": lambda b, node: b.Identity(*present(node.inputs)),
    "Sign": sign_of_unsigned,
}

ROUNDED_INTEGERS: Mapping[tuple[str, oir.DataType], Decompose] = {
    **{(op, t): where_rounded(f) for op, f in _BOTH.items() for t in (T.INT32, T.UINT32)},
    **{(op, T.UINT32): where_rounded(f) for op, f in _UNSIGNED.items()},
    **{("MatMul", t): product_of_integers for t in (T.INT32, T.INT64, T.UINT32)},
    ("BitShift", T.UINT32): shifted,
    ("Where", T.INT32): chosen,
    **{("Pad", dtype): padded for dtype in _WHOLE},
    **{("Cast", t): cast_rounded for t in (T.FLOAT, T.FLOAT16, *_INTEGERS)},
}
"""By operator and element type."""
