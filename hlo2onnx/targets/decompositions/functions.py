"""Functions of f64 and f32, for targets whose kernels of them are missing or wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.accurate_math import log1p
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import dtype_of, present

# -- f64 functions ---------------------------------------------------------------------------------

# f64 functions for targets that have them in f32 only.
#
# They use Exp, Log, Sin, Cos and Sqrt in f64, which every runtime has, and no fitted coefficients.
# The number after each formula is the largest error found in ONNX Runtime, in ULP.


_Function = Callable[[GraphBuilder, oir.Value], oir.Value]


def atan_f64(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """The f32 result y, then one step: y + (x - tan(y)) / (1 + x tan(y)).  4

    The step is atan(x) - atan(tan(y)) up to the cube of the f32 error.
    """
    # Beyond 1e17 the result does not change any more, and an infinity would give NaN.
    x = b.Clip(x, b.scalar_like(-1e17, x), b.scalar_like(1e17, x))
    y = b.cast(b.Atan(b.cast(x, oir.DataType.FLOAT)), oir.DataType.DOUBLE)
    sin, cos = b.Sin(y), b.Cos(y)
    step = b.Div(b.Sub(b.Mul(x, cos), sin), b.Add(cos, b.Mul(x, sin)))
    return b.Add(y, step)


def asin_f64(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """atan(x / sqrt((1 - x) (1 + x))).  4"""
    one = b.scalar_like(1, x)
    return atan_f64(b, b.Div(x, b.Sqrt(b.Mul(b.Sub(one, x), b.Add(one, x)))))


def acos(b: GraphBuilder, x: oir.Value, atan: _Function) -> oir.Value:
    """2 atan(sqrt((1 - x) / (1 + x))).  4"""
    one = b.scalar_like(1, x)
    half = atan(b, b.Sqrt(b.Div(b.Sub(one, x), b.Add(one, x))))
    return b.Add(half, half)


_HALF_PI = tuple(
    map(float.fromhex, ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2e037073p-69"))
)
"""pi/2 as a sum whose first two parts have 33 bits: their products by k < 2**20 are exact."""


def tan_f64(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """tan(r) or -1/tan(r), where r = x - k pi/2 lies within pi/4.  5

    Sin(x) / Cos(x) would be exact enough except near their zeros: the kernels are off by 4e-16,
    which is much for a small result. Beyond 1e6 it is used all the same: k = 0 there.
    """
    zero, half = b.scalar_like(0, x), b.scalar_like(0.5, x)
    is_near = b.Less(b.Abs(x), b.scalar_like(1e6, x))
    k = b.Where(is_near, b.Round(b.Mul(x, b.scalar_like(2 / math.pi, x))), zero)
    r = x
    for part in _HALF_PI:
        r = b.Sub(r, b.Mul(k, b.scalar_like(part, x)))
    sin, cos = b.Sin(r), b.Cos(r)
    pairs = b.Mul(k, half)
    is_odd = b.cast(b.Sub(pairs, b.Round(pairs)), oir.DataType.BOOL)
    return b.Where(is_odd, b.Neg(b.Div(cos, sin)), b.Div(sin, cos))


def sinh_f64(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """(exp|x| - exp(-|x|)) / 2 with the sign of x, or its power series where |x| < 1.  4"""
    size, one = b.Abs(x), b.scalar_like(1, x)
    grown, shrunk = _half_exponentials(b, size)
    square = b.Mul(x, x)
    series = [1 / math.factorial(2 * n + 3) for n in range(9)]
    near = b.Add(x, b.Mul(b.Mul(x, square), polynomial(b, square, series)))
    far = b.Mul(b.Sign(x), b.Sub(grown, shrunk))
    return b.Where(b.GreaterOrEqual(size, one), far, near)


def cosh_f64(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """(exp|x| + exp(-|x|)) / 2.  4"""
    return b.Add(*_half_exponentials(b, b.Abs(x)))


def _half_exponentials(b: GraphBuilder, x: oir.Value) -> tuple[oir.Value, oir.Value]:
    """exp(x) / 2 and exp(-x) / 2 for x >= 0; through exp(x/2), since exp(x) overflows earlier."""
    half = b.scalar_like(0.5, x)
    root = b.Exp(b.Mul(x, half))
    return b.Mul(b.Mul(root, half), root), b.Div(half, b.Mul(root, root))


def asinh_f64(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """sign(x) log1p(|x| + x² / (1 + sqrt(1 + x²))); log(2 |x|) where x² might overflow.  3"""
    size, one = b.Abs(x), b.scalar_like(1, x)
    square = b.Mul(x, x)
    root = b.Sqrt(b.Add(square, one))
    near = log1p(b, b.Add(size, b.Div(square, b.Add(root, one))))
    far = b.Add(b.Log(size), b.scalar_like(math.log(2), x))
    size_of_result = b.Where(b.Less(size, b.scalar_like(1e9, x)), near, far)
    return b.Mul(b.Sign(x), size_of_result)


def acosh_f64(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """2 asinh(sqrt((x - 1) / 2)).  3"""
    half, one = b.scalar_like(0.5, x), b.scalar_like(1, x)
    part = asinh_f64(b, b.Sqrt(b.Mul(b.Sub(x, one), half)))
    return b.Add(part, part)


def atanh_f64(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """sign(x) log1p(2 |x| / (1 - |x|)) / 2.  3"""
    size, half, one = b.Abs(x), b.scalar_like(0.5, x), b.scalar_like(1, x)
    twice = log1p(b, b.Div(b.Add(size, size), b.Sub(one, size)))
    return b.Mul(b.Mul(b.Sign(x), half), twice)


_ERF_END = 6  # from here on erf is 1 in f64
_ERF_STEPS = 64  # grid points per unit
_ERF_TERMS = 8


def erf_f64(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """The Taylor series of erf around the nearest point of a grid of 1/64.  2

    Each coefficient has a table, indexed by the number of the point.
    """
    size = b.Min(b.Abs(x), b.scalar_like(_ERF_END, x))
    point = b.Round(b.Mul(size, b.scalar_like(_ERF_STEPS, x)))
    offset = b.Sub(size, b.Mul(point, b.scalar_like(1 / _ERF_STEPS, x)))
    # The index of NaN is arbitrary; the offset is NaN.
    index = b.Clip(b.cast(point, oir.DataType.INT64), b.i64(0), b.i64(_ERF_END * _ERF_STEPS))
    result = None
    for column in reversed(_erf_taylor_coefficients()):
        coefficient = b.Gather(b.const(column), index, axis=0)
        result = coefficient if result is None else b.Add(b.Mul(result, offset), coefficient)
    return b.Mul(b.Sign(x), result)


def _erf_taylor_coefficients() -> list[np.ndarray]:
    """erf and its derivatives over n! at every grid point.

    The derivatives are those of a Gaussian: erf' times Hermite polynomials of alternating sign.
    """
    points = np.arange(_ERF_END * _ERF_STEPS + 1) / _ERF_STEPS
    slope = np.array([2 / math.sqrt(math.pi) * math.exp(-z * z) for z in points])
    hermite = [np.ones_like(points), 2 * points]
    for n in range(1, _ERF_TERMS):
        hermite.append(2 * points * hermite[n] - 2 * n * hermite[n - 1])
    columns = [np.array([math.erf(z) for z in points])]
    for n in range(_ERF_TERMS - 1):
        columns.append((-1) ** n * hermite[n] * slope / math.factorial(n + 1))
    return columns


def polynomial(b: GraphBuilder, x: oir.Value, coefficients: list[float]) -> oir.Value:
    """c[0] + c[1] x + c[2] x² + ..., by Horner's rule."""
    result = b.scalar_like(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        result = b.Add(b.Mul(result, x), b.scalar_like(coefficient, x))
    return result


# -- f32 functions ---------------------------------------------------------------------------------

# f32 functions for targets whose kernels are missing, or wrong, in f32 as well.
#
# WGSL allows Sin and Cos an error of 2^-11, and GPUs use it. The polynomials are those of Cephes.
# The number after each formula is the largest error found in ONNX Runtime, in ULP. Where r is below
# 1e-8, it is 50.


_HALF_PI_F32 = (201 / 2**7, 253 / 2**19, 170 / 2**27, 9.920935796805404e-10)
"""pi/2 as a sum whose first parts have 8 bits: their products by k < 2^16 are exact."""
_LARGEST = 1e5
"""From here on k has more than 16 bits, and the result is NaN."""
_SIN = [-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4]
_COS = [4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5]


def _turned(b: GraphBuilder, x: oir.Value) -> tuple[oir.Value, oir.Value, oir.Value]:
    """k, and the sine and cosine of r, for x = k pi/2 + r with r within pi/4."""
    is_near = b.Less(b.Abs(x), b.scalar_like(_LARGEST, x))
    x = b.Where(is_near, x, b.scalar_like(math.nan, x))
    k = b.Round(b.Mul(x, b.scalar_like(2 / math.pi, x)))
    r = x
    for part in _HALF_PI_F32:
        r = b.Sub(r, b.Mul(k, b.scalar_like(part, x)))
    square = b.Mul(r, r)
    sin = b.Add(r, b.Mul(b.Mul(r, square), polynomial(b, square, _SIN)))
    ends = b.Sub(b.scalar_like(1, x), b.Mul(square, b.scalar_like(0.5, x)))
    cos = b.Add(ends, b.Mul(b.Mul(square, square), polynomial(b, square, _COS)))
    return k, sin, cos


def _is_odd(b: GraphBuilder, k: oir.Value) -> oir.Value:
    pairs = b.Mul(k, b.scalar_like(0.5, k))
    return b.Greater(b.Sub(pairs, b.Floor(pairs)), b.scalar_like(0, k))


def sine_f32(b: GraphBuilder, x: oir.Value, quarters: int) -> oir.Value:
    """The sine of x + quarters pi/2: sin(r), cos(r), -sin(r) or -cos(r).  3"""
    k, sin, cos = _turned(b, x)
    k = b.Add(k, b.scalar_like(quarters, k))
    size = b.Where(_is_odd(b, k), cos, sin)
    half_turns = b.Floor(b.Mul(k, b.scalar_like(0.5, k)))
    return b.Where(_is_odd(b, half_turns), b.Neg(size), size)


def tan_f32(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """sin(r) / cos(r) or -cos(r) / sin(r).  4"""
    k, sin, cos = _turned(b, x)
    return b.Where(_is_odd(b, k), b.Neg(b.Div(cos, sin)), b.Div(sin, cos))


_ATAN = [1, -3.33329491539e-1, 1.99777106478e-1, -1.38776856032e-1, 8.05374449538e-2]


def atan_f32(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """A polynomial of x, of pi/4 + atan((|x| - 1) / (|x| + 1)), or of pi/2 - atan(1 / |x|).  3"""
    size, one = b.Abs(x), b.scalar_like(1, x)
    is_near = b.LessOrEqual(size, b.scalar_like(math.sqrt(2) - 1, x))
    is_far = b.Greater(size, b.scalar_like(math.sqrt(2) + 1, x))
    middle = b.Div(b.Sub(size, one), b.Add(size, one))
    r = b.Where(is_far, b.Div(b.scalar_like(-1, x), size), middle)
    r = b.Where(is_near, x, r)
    square = b.Mul(r, r)
    near = b.Mul(r, polynomial(b, square, _ATAN))  # keeps the sign of zero
    turn = b.Where(is_far, b.scalar_like(math.pi / 2, x), b.scalar_like(math.pi / 4, x))
    return b.Where(is_near, near, b.Mul(b.Sign(x), b.Add(turn, near)))


def asin_f32(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """atan(x / sqrt((1 - x) (1 + x))).  4"""
    one = b.scalar_like(1, x)
    return b.Atan(b.Div(x, b.Sqrt(b.Mul(b.Sub(one, x), b.Add(one, x)))))


# -- tables ----------------------------------------------------------------------------------------

F64_FUNCTIONS: Mapping[str, _Function] = {
    "Acos": partial(acos, atan=atan_f64),
    "Acosh": acosh_f64,
    "Asin": asin_f64,
    "Asinh": asinh_f64,
    "Atan": atan_f64,
    "Atanh": atanh_f64,
    "Cosh": cosh_f64,
    "Erf": erf_f64,
    "Sinh": sinh_f64,
    "Tan": tan_f64,
}
F32_FUNCTIONS: Mapping[str, _Function] = {
    "Acos": partial(acos, atan=lambda b, x: b.Atan(x)),
    "Acosh": acosh_f64,
    "Asin": asin_f32,
    "Asinh": asinh_f64,
    "Atan": atan_f32,
    "Atanh": atanh_f64,
    "Cos": partial(sine_f32, quarters=1),
    "Cosh": cosh_f64,
    "Sin": partial(sine_f32, quarters=0),
    "Sinh": sinh_f64,
    "Tan": tan_f32,
}
"""The function for each ONNX operator."""


def decompose_function(builder: GraphBuilder, node: oir.Node) -> oir.Value:
    """A node of one of these operators, as the nodes of its function."""
    x = present(node.inputs)[0]
    is_double = dtype_of(x) == oir.DataType.DOUBLE
    return (F64_FUNCTIONS if is_double else F32_FUNCTIONS)[node.op_type](builder, x)
