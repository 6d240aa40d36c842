"""Products of large integer matrices, computed in floats without rounding."""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.ranges import magnitudes, range_of_type
from hlo2onnx.ir.values import dtype_of, rank_of, shape_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import operands

T = oir.DataType

_DIGITS = {T.FLOAT: 24, T.DOUBLE: 53}
"""The bits of a float type, which holds every integer up to 2^bits."""

_LOW, _HIGH = 11, 21
"""i32 numbers are high * 2^11 + low; in a product of high by 2^11, 21 bits matter."""

_TERMS = 1 << 11
"""Products of parts have at most 42 bits, so sums of 2,048 have 53. One part is shifted by 11, and
the sum of both has at most 63 bits."""


class IntegerMatMul(Rule):
    """MatMul(a, b) -> Cast(MatMul(Cast(a), Cast(b))), computed in f32 or f64; for i32 and u32

    Legal if the ranges of a and b, or their types, prove that the float type holds every sum, or
    else if a and b are split: a = high * 2^11 + low gives MatMul(high, b) * 2^11 + MatMul(low, b)
    in f64. Only the last 21 bits of b matter for the first product. All sums of up to 2,048
    products of such parts are exact, and the result wraps as in integers. An If skips the split
    where the largest numbers of a and b at run time prove that the sums fit. Done for large
    products, where it is faster.
    """

    name = "integer-matmul-in-floats"
    anchors = frozenset({"MatMul"})
    # `quantize_dequantize` and rules for shapes match MatMul.
    phase = 5

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, y = operands(node)
        dtype = dtype_of(x)
        need(dtype in (T.INT32, T.UINT32), "it multiplies no integers of 32 bits", node)
        need(rank_of(x) >= 2 and rank_of(y) >= 2, "it multiplies a vector", node)
        dims = needed(static_shape(node.outputs[0]), "its extents are dynamic", node)
        terms = shape_of(x)[-1]
        assert isinstance(terms, int)
        is_large = math.prod(dims) * terms >= b.costs.integer_matmul_work
        need(is_large, "the product is small", node)
        ranges = [b.facts.int_range(value) or range_of_type(dtype) for value in (x, y)]
        largest = terms * math.prod(magnitudes(*known)[1] for known in ranges)
        for float_type, digits in _DIGITS.items():
            if largest <= 1 << digits and _computes(b, float_type):
                product = b.MatMul(b.cast(x, float_type), b.cast(y, float_type))
                if largest <= range_of_type(dtype).high:
                    return b.cast(product, dtype)
                return b.cast(_wrapped(b, product), dtype)
        need(terms <= _TERMS, "sums of this many terms have too many bits", node)
        need(_computes(b, T.DOUBLE), "the target lacks the arithmetic in f64", node)
        x, y = (b.cast(b.cast(value, T.INT32), T.DOUBLE) for value in (x, y))
        return b.cast(_product_modulo(b, x, y, terms), dtype)


def _computes(b: Rewriter, dtype: oir.DataType) -> bool:
    """Whether the target has the arithmetic in this float type, and the casts."""
    wide, integer = T.INT64, T.INT32
    pairs = (
        (integer, dtype),
        (T.UINT32, integer),
        (dtype, wide),
        (dtype, integer),
        (wide, integer),
    )
    return (
        (dtype != T.DOUBLE or b.has_f64)
        and (b.supports("BitwiseAnd", wide) or b.supports("Mod", wide))
        and all(b.supports(op_type, dtype) for op_type in ("MatMul", "Mul", "Round", "Sub"))
        and all(b.target.supports_cast(*pair, b.opset) for pair in pairs)
    )


def _wrapped(b: Rewriter, product: oir.Value) -> oir.Value:
    """Integers in f64 as i64 from 0 to 2^32 - 1. Some runtimes take two casts in a row for one,
    which saturates."""
    digits_kept = b.scalar((1 << 32) - 1, T.INT64)
    wrapped: oir.Value = b.BitwiseAnd(b.cast(product, T.INT64), digits_kept)
    return wrapped


def _product_modulo(b: Rewriter, x: oir.Value, y: oir.Value, terms: int) -> oir.Value:
    """The product of i32 numbers in f64, in i64; only its last 32 digits are right."""
    flags = b.target.flags
    is_measured = b.supports("ReduceMax", T.DOUBLE) and b.supports("Abs", T.DOUBLE)
    if not is_measured or flags.no_if:
        return _parted_product(b, x, y)
    sizes = [b.ReduceMax(b.Abs(value), keepdims=0) for value in (x, y)]
    # A product of sizes that is rounded is greater than this.
    limit = ((1 << _DIGITS[T.DOUBLE]) - 1) // terms
    is_small = b.LessOrEqual(b.Mul(*sizes), b.scalar(limit, T.DOUBLE))
    with b.subgraph([], f"{b.scope}/small") as small:
        small.outputs.append(_wrapped(b, b.MatMul(x, y)))
    with b.subgraph([], f"{b.scope}/large") as large:
        large.outputs.append(_parted_product(b, x, y))
    chosen: oir.Value = b.If(is_small, then_branch=small, else_branch=large)
    return chosen


def _parted_product(b: Rewriter, x: oir.Value, y: oir.Value) -> oir.Value:
    """The product of i32 numbers in f64, in i64; only its last 32 digits are right."""
    high, low = _parts(b, x, _LOW)
    _, last = _parts(b, y, _HIGH)
    first = b.Mul(b.cast(b.MatMul(high, last), T.INT64), b.scalar(1 << _LOW, T.INT64))
    return b.Add(first, b.cast(b.MatMul(low, y), T.INT64))


def _parts(b: Rewriter, x: oir.Value, digits: int) -> tuple[oir.Value, oir.Value]:
    """high and low of x = high * 2^digits + low, where low is at most 2^(digits - 1)."""
    high = b.Round(b.Mul(x, b.scalar(2.0**-digits, T.DOUBLE)))
    return high, b.Sub(x, b.Mul(high, b.scalar(2.0**digits, T.DOUBLE)))
