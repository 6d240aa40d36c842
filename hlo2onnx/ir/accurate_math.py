"""Elementwise functions that ONNX has no operator for, from operators that it has.

Each is accurate over its whole domain in f32 and f64; the numbers after a formula are its largest
errors in ULP, measured in ONNX Runtime. Narrower floats go through `rounded_once`.

ONNX Runtime's Where turns -0 in its second operand into +0, so a zero whose sign matters is in the
third. (A Not of the condition does not help: the runtime removes it and swaps the operands.)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import FLOATS, dtype_of


def rounded_once(
    b: GraphBuilder, formula: Callable[..., oir.Value], *operands: oir.Value
) -> oir.Value:
    """formula(b, *operands), evaluated in f32 for floats narrower than that.

    XLA rounds to a half type once per StableHLO op, however many steps the op takes.
    """
    dtype = dtype_of(operands[0])
    if dtype in FLOATS and dtype.bitwidth < 32:
        operands = tuple(b.cast(x, oir.DataType.FLOAT) for x in operands)
    return b.cast(formula(b, *operands), dtype)


def expm1(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """exp(x) - 1 = tanh(x/2) * (exp(x) + 1), accurate near 0.  f32 6, f64 6"""
    half, one = b.scalar_like(0.5, x), b.scalar_like(1, x)
    return b.Mul(b.Tanh(b.Mul(x, half)), b.Add(b.Exp(x), one))


def log1p(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """log(1 + x) = log(u) + (x - (u - 1)) / u, with u = round(1 + x).  f32 4, f64 2

    The quotient is the error of rounding 1 + x. At the ends of the domain (-1 and infinity) it is
    NaN, and the logarithm is infinite. The sum is written as a difference so that log1p(-0) is -0:
    x - 0 keeps the sign of a zero, x + 0 does not.
    """
    one = b.scalar_like(1, x)
    u = b.Add(x, one)
    log = b.Log(u)
    lost = b.Div(b.Sub(x, b.Sub(u, one)), u)
    total = b.Sub(lost, b.Sub(b.scalar_like(0, x), log))
    return b.Where(b.IsNaN(lost), log, total)


def logistic(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """1 / (1 + exp(-x)).  f32 3, f64 3

    Not Sigmoid: its kernel is 17 % off at -15 in f32.
    """
    return b.Reciprocal(b.Add(b.Exp(b.Neg(x)), b.scalar_like(1, x)))


def rsqrt(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """1 / sqrt(x).  f32 2, f64 2"""
    return b.Reciprocal(b.Sqrt(x))


def cbrt(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """sign(x) * |x| ** (1/3), with a Newton step because 1/3 is not a float.  f32 1, f64 1

    At 0 and infinity the step is NaN, and x is its own root.
    """
    size = b.Abs(x)
    root = b.Pow(size, b.scalar_like(1 / 3, x))
    excess = b.Sub(root, b.Div(size, b.Mul(root, root)))
    better = b.Sub(root, b.Div(excess, b.scalar_like(3, x)))
    is_number = b.LessOrEqual(excess, root)
    return b.Where(is_number, b.Mul(b.Sign(x), better), x)


def power(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    """x ** y.  f32 1, f64 2"""
    return b.Pow(x, y)


def multiply_add(b: GraphBuilder, x: oir.Value, y: oir.Value, z: oir.Value) -> oir.Value:
    """x * y + z of f32, rounded once except for ties, if all terms are normal numbers.

    Products of 12-bit halves are exact, so the errors of the product and of the sum are computed
    exactly (Dekker, 1971) and added at the end.
    """
    (first, second), (third, fourth) = _halves(b, x), _halves(b, y)
    product = b.Mul(x, y)
    error = b.Sub(b.Mul(first, third), product)
    for one, other in ((first, fourth), (second, third), (second, fourth)):
        error = b.Add(error, b.Mul(one, other))
    total = b.Add(product, z)
    added = b.Sub(total, product)
    lost = b.Add(b.Sub(product, b.Sub(total, added)), b.Sub(z, added))
    return b.Add(total, b.Add(lost, error))


def _halves(b: GraphBuilder, x: oir.Value) -> tuple[oir.Value, oir.Value]:
    """Two f32 numbers of 12 bits whose sum is x."""
    scaled = b.Mul(x, b.scalar_like(4097, x))
    first = b.Sub(scaled, b.Sub(scaled, x))
    return first, b.Sub(x, first)


def round_half_away(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """Round(x), corrected for ties, which Round takes to even. Exact in every type."""
    half = b.scalar_like(0.5, x)
    even = b.Round(x)
    is_tie = b.Equal(b.Abs(b.Sub(x, even)), half)
    away = b.Add(x, b.Mul(b.Sign(x), half))
    return b.Where(is_tie, away, even)


def sign(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """Sign(x), except that a zero keeps its sign."""
    is_not_zero = b.cast(x, oir.DataType.BOOL)
    return b.Where(is_not_zero, b.Sign(x), x)


def atan2(b: GraphBuilder, y: oir.Value, x: oir.Value) -> oir.Value:
    """The angle of the point (x, y): Atan(|y| / |x|), mirrored into its quadrant.  f32 5, f64 5

    Sign(|y|) replaces the quotient of equal magnitudes: 0 for 0/0, 1 for infinity/infinity.
    """
    rise, run = b.Abs(y), b.Abs(x)
    slope = b.Where(b.Equal(rise, run), b.Sign(rise), b.Div(rise, run))
    angle = b.Atan(slope)
    angle = b.Where(_has_plus(b, x), angle, b.Sub(b.scalar_like(math.pi, x), angle))
    return b.Where(_has_plus(b, y), angle, b.Neg(angle))


def _has_plus(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """Whether x is positive or +0; -0 has the reciprocal -infinity."""
    return b.GreaterOrEqual(b.Min(x, b.Reciprocal(x)), b.scalar_like(0, x))
