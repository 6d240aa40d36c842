"""Complex numbers: their parts, and arithmetic on pairs of them."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
from jax import lax

from dialect_handlers.common.elementwise import ACCURACY
from dialect_handlers.common.tensors import zeros_like
from hlo2onnx.ir.accurate_math import atan2, cbrt, expm1
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

# -- complex, real, imag ----------------------------------------------------------------------


@handles("stablehlo.complex", form="complex")
def make_complex(em: Emitter, op: Op) -> list[Parts]:
    """complex(re, im) -> the pair (re, im)."""
    return [(em.operand(op, 0), em.operand(op, 1))]


@handles("stablehlo.real", form="complex")
def real(em: Emitter, op: Op) -> oir.Value:
    """real(x) -> the real part."""
    return em.parts(op.operands[0])[0]


@handles("stablehlo.imag", form="complex")
def imag(em: Emitter, op: Op) -> oir.Value:
    """imag(x) -> the imaginary part."""
    return em.parts(op.operands[0])[1]


@handles("stablehlo.real")
def real_of_real(em: Emitter, op: Op) -> oir.Value:
    """real(x) of a real x -> x."""
    return em.operand(op)


@handles("stablehlo.imag")
def imag_of_real(em: Emitter, op: Op) -> oir.Value:
    """imag(x) of a real x -> zeros in the shape of x."""
    return zeros_like(em, em.operand(op))


# -- arithmetic and transcendental ops on complex numbers, as (re, im) pairs ------------------
#
# exponential, log, log_plus_one and sqrt are expanded by MLIR's stablehlo-complex-math-expander,
# as XLA does. The others follow the branches that XLA on the CPU takes at zeros, infinities and
# NaN.


Pair = tuple[oir.Value, oir.Value]


def _number(b: GraphBuilder, item: float, like: oir.Value) -> oir.Value:
    return b.scalar_like(item, like)


def _is(b: GraphBuilder, x: oir.Value, item: float) -> oir.Value:
    return b.Equal(x, _number(b, item, x))


def add(b: GraphBuilder, x: Pair, y: Pair) -> Pair:
    """(a + c) + (b + d) i"""
    return b.Add(x[0], y[0]), b.Add(x[1], y[1])


def subtract(b: GraphBuilder, x: Pair, y: Pair) -> Pair:
    """(a - c) + (b - d) i"""
    return b.Sub(x[0], y[0]), b.Sub(x[1], y[1])


def multiply(b: GraphBuilder, x: Pair, y: Pair) -> Pair:
    """(ac - bd) + (ad + bc) i"""
    real = b.Sub(b.Mul(x[0], y[0]), b.Mul(x[1], y[1]))
    return real, b.Add(b.Mul(x[0], y[1]), b.Mul(x[1], y[0]))


def negate(b: GraphBuilder, x: Pair) -> Pair:
    """-a - b i"""
    return b.Neg(x[0]), b.Neg(x[1])


def absolute(b: GraphBuilder, x: Pair) -> oir.Value:
    """The length of x: m * sqrt(1 + (n/m)^2) with m >= n, which does not overflow before the
    result does."""
    a, c = b.Abs(x[0]), b.Abs(x[1])
    large, small = b.Max(a, c), b.Min(a, c)
    ratio = b.Div(small, large)
    length = b.Mul(large, b.Sqrt(b.Add(b.Mul(ratio, ratio), _number(b, 1, a))))
    extreme = b.Or(_is(b, large, 0), b.IsInf(large))
    return b.Where(extreme, large, length)


def sign(b: GraphBuilder, x: Pair) -> Pair:
    """x / |x|, and x itself at 0"""
    length = absolute(b, x)
    zero = _is(b, length, 0)
    return tuple(b.Where(zero, part, b.Div(part, length)) for part in x)  # type: ignore[return-value]


def sine(b: GraphBuilder, x: Pair) -> Pair:
    """sin a cosh b + cos a sinh b i"""
    a, c = x
    return b.Mul(b.Sin(a), b.Cosh(c)), b.Mul(b.Cos(a), b.Sinh(c))


def cosine(b: GraphBuilder, x: Pair) -> Pair:
    """cos a cosh b - sin a sinh b i"""
    a, c = x
    return b.Mul(b.Cos(a), b.Cosh(c)), b.Neg(b.Mul(b.Sin(a), b.Sinh(c)))


def logistic(b: GraphBuilder, x: Pair) -> Pair:
    """1 / (1 + exp(-x))"""
    a, c = x
    one, growth = _number(b, 1, a), b.Exp(b.Neg(a))
    # exp of a real number is real, even where it is infinite
    imaginary = b.Where(_is(b, c, 0), c, b.Mul(growth, b.Sin(c)))
    bottom = (b.Add(one, b.Mul(growth, b.Cos(c))), b.Neg(imaginary))
    return divide(b, (one, _number(b, 0, a)), bottom)


def exponential_minus_one(b: GraphBuilder, x: Pair) -> Pair:
    """expm1(a) cos b + (cos b - 1) + exp(a) sin b i, without cancellation near 0"""
    a, c = x
    half_sine = b.Sin(b.Mul(c, _number(b, 0.5, c)))
    cosine_less_one = b.Mul(_number(b, -2, c), b.Mul(half_sine, half_sine))
    real = b.Add(b.Mul(expm1(b, a), b.Cos(c)), cosine_less_one)
    is_real = _is(b, c, 0)
    imaginary = b.Mul(b.Exp(a), b.Sin(c))
    return b.Where(is_real, expm1(b, a), real), b.Where(is_real, c, imaginary)


def tanh(b: GraphBuilder, x: Pair) -> Pair:
    """(beta rho s + t i) / (1 + beta s^2), with s = sinh a, t = tan b (Kahan 1987)

    beta is 1 + t^2, rho is sqrt(1 + s^2). Where |a| is large the result is a's sign and
    4 sin b cos b exp(-2|a|) i.
    """
    a, c = x
    one = _number(b, 1, a)
    s, t = b.Sinh(a), b.Tan(c)
    beta = b.Add(b.Mul(t, t), one)
    rho = b.Sqrt(b.Add(b.Mul(s, s), one))
    bottom = b.Add(b.Mul(beta, b.Mul(s, s)), one)
    near = (b.Div(b.Mul(beta, b.Mul(rho, s)), bottom), b.Div(t, bottom))
    decay = b.Exp(b.Mul(b.Abs(a), _number(b, -2, a)))
    swing = b.Mul(b.Mul(b.Sin(c), b.Cos(c)), _number(b, 4, a))
    zero = _number(b, 0, a)
    swing = b.Where(b.And(b.IsInf(a), b.Or(b.IsInf(c), b.IsNaN(c))), zero, swing)
    limit = 11 if dtype_of(a) == oir.DataType.FLOAT else 20
    far = b.Greater(b.Abs(a), _number(b, limit, a))
    imaginary = b.Where(far, b.Mul(swing, decay), near[1])
    # tanh of a real number is real, even of NaN.
    return b.Where(far, b.Sign(a), near[0]), b.Where(_is(b, c, 0), c, imaginary)


def tan(b: GraphBuilder, x: Pair) -> Pair:
    """-i tanh(i x)"""
    real, imaginary = tanh(b, (b.Neg(x[1]), x[0]))
    return imaginary, b.Neg(real)


def rsqrt(b: GraphBuilder, x: Pair) -> Pair:
    """|x|^(-1/2) at half the negative angle; inf + NaN i at 0"""
    a, c = x
    length = absolute(b, x)
    angle = b.Mul(atan2(b, c, a), _number(b, -0.5, a))
    scale = b.Reciprocal(b.Sqrt(length))
    real, imaginary = b.Mul(scale, b.Cos(angle)), b.Mul(scale, b.Sin(angle))
    far, origin = b.Or(b.IsInf(a), b.IsInf(c)), _is(b, length, 0)
    zero = _number(b, 0, a)
    real = b.Where(far, zero, b.Where(origin, _number(b, np.inf, a), real))
    imaginary = b.Where(far, zero, b.Where(origin, _number(b, np.nan, a), imaginary))
    return real, imaginary


def divide(b: GraphBuilder, x: Pair, y: Pair) -> Pair:
    """Smith's quotient, which scales by the larger part of y.

    If it is NaN, and x or y is infinite or y is zero, the corrections of C99 annex G.5.1 apply.
    """
    (p, q), (c, d) = x, y
    by_real = b.GreaterOrEqual(b.Abs(c), b.Abs(d))
    large, small = b.Where(by_real, c, d), b.Where(by_real, d, c)
    ratio = b.Div(small, large)
    bottom = b.Add(large, b.Mul(small, ratio))
    first, second = b.Where(by_real, p, q), b.Where(by_real, q, p)
    real = b.Div(b.Add(first, b.Mul(second, ratio)), bottom)
    # im is (q - p r) / bottom with |c| >= |d|, (q r - p) / bottom otherwise
    cross = b.Where(by_real, b.Sub(q, b.Mul(p, ratio)), b.Sub(b.Mul(q, ratio), p))
    return _repaired(b, x, y, (real, b.Div(cross, bottom)))


def _repaired(b: GraphBuilder, x: Pair, y: Pair, quotient: Pair) -> Pair:
    (p, q), (c, d), (real, imaginary) = x, y, quotient
    undefined = b.And(b.IsNaN(real), b.IsNaN(imaginary))
    infinity = _number(b, np.inf, p)
    zero_divisor = b.And(undefined, b.And(_is(b, c, 0), _is(b, d, 0)))
    # 1/c is an infinity of c's sign
    pole = b.Reciprocal(c)
    real = b.Where(zero_divisor, b.Mul(pole, p), real)
    imaginary = b.Where(zero_divisor, b.Mul(pole, q), imaginary)

    infinite_x = b.And(b.Or(b.IsInf(p), b.IsInf(q)), _finite(b, c, d))
    unit_p, unit_q = _unit_if_infinite(b, p), _unit_if_infinite(b, q)
    to_infinity = b.And(b.And(undefined, b.Not(zero_divisor)), infinite_x)
    forward = b.Add(b.Mul(unit_p, c), b.Mul(unit_q, d))
    sideways = b.Sub(b.Mul(unit_q, c), b.Mul(unit_p, d))
    real = b.Where(to_infinity, b.Mul(infinity, forward), real)
    imaginary = b.Where(to_infinity, b.Mul(infinity, sideways), imaginary)

    infinite_y = b.And(b.Or(b.IsInf(c), b.IsInf(d)), _finite(b, p, q))
    to_zero = b.And(undefined, infinite_y)
    zero = _number(b, 0, p)
    return b.Where(to_zero, zero, real), b.Where(to_zero, zero, imaginary)


def _finite(b: GraphBuilder, *parts: oir.Value) -> oir.Value:
    odd = [b.Or(b.IsInf(part), b.IsNaN(part)) for part in parts]
    return b.Not(b.Or(*odd))


def _unit_if_infinite(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """±1 for an infinity, 0 for anything finite."""
    return b.Where(b.IsInf(x), b.Sign(x), _number(b, 0, x))


def maximum(b: GraphBuilder, x: Pair, y: Pair) -> Pair:
    """x if x.re >= y.re, else y. StableHLO compares the imaginary parts of equal real parts; XLA
    ignores them."""
    return _selected(b, b.GreaterOrEqual(x[0], y[0]), x, y)


def minimum(b: GraphBuilder, x: Pair, y: Pair) -> Pair:
    """x if x.re <= y.re, else y"""
    return _selected(b, b.LessOrEqual(x[0], y[0]), x, y)


def _selected(b: GraphBuilder, condition: oir.Value, x: Pair, y: Pair) -> Pair:
    return b.Where(condition, x[0], y[0]), b.Where(condition, x[1], y[1])


def cube_root(b: GraphBuilder, x: Pair) -> Pair:
    """The principal root: |x|^(1/3) at a third of the angle. It is real for real numbers >= 0."""
    a, c = x
    length = cbrt(b, absolute(b, x))
    angle = b.Div(atan2(b, c, a), _number(b, 3, a))
    is_real = b.And(_is(b, c, 0), b.GreaterOrEqual(a, _number(b, 0, a)))
    return (
        b.Where(is_real, length, b.Mul(length, b.Cos(angle))),
        b.Where(is_real, c, b.Mul(length, b.Sin(angle))),
    )


def power(b: GraphBuilder, x: Pair, y: Pair) -> Pair:
    """|x|^c exp(-d arg x) at the angle d log |x| + c arg x

    1 where y is 0 or x is 1. With a real y: 0 where x is 0 and y > 0; infinite or 0 where x is
    +infinity.
    """
    (p, q), (c, d) = x, y
    one, zero = _number(b, 1, p), _number(b, 0, p)
    length, angle = absolute(b, x), atan2(b, q, p)
    scale = b.Mul(b.Pow(length, c), b.Exp(b.Neg(b.Mul(d, angle))))
    turn = b.Add(b.Mul(d, b.Log(length)), b.Mul(c, angle))
    real, imaginary = b.Mul(scale, b.Cos(turn)), b.Mul(scale, b.Sin(turn))
    from_zero = b.And(_is(b, p, 0), b.Greater(c, zero))
    from_infinity = b.And(_is(b, p, np.inf), b.Not(b.IsNaN(c)))
    is_limit = b.And(b.And(_is(b, q, 0), _is(b, d, 0)), b.Or(from_zero, from_infinity))
    real = b.Where(is_limit, b.Pow(b.Abs(p), c), real)
    unit = b.Or(b.And(_is(b, c, 0), _is(b, d, 0)), b.And(_is(b, p, 1), _is(b, q, 0)))
    return (
        b.Where(unit, one, real),
        b.Where(b.Or(unit, is_limit), zero, imaginary),
    )


_TABLE: dict[str, Callable[..., Pair | oir.Value]] = {
    "stablehlo.abs": absolute,
    "stablehlo.add": add,
    "stablehlo.cbrt": cube_root,
    "stablehlo.cosine": cosine,
    "stablehlo.divide": divide,
    "stablehlo.exponential_minus_one": exponential_minus_one,
    "stablehlo.logistic": logistic,
    "stablehlo.maximum": maximum,
    "stablehlo.minimum": minimum,
    "stablehlo.multiply": multiply,
    "stablehlo.negate": negate,
    "stablehlo.power": power,
    "stablehlo.rsqrt": rsqrt,
    "stablehlo.sign": sign,
    "stablehlo.sine": sine,
    "stablehlo.subtract": subtract,
    "stablehlo.tan": tan,
    "stablehlo.tanh": tanh,
}


def _handler(formula: Callable[..., Pair | oir.Value]) -> Callable[[Emitter, Op], list[Parts]]:
    def handler(em: Emitter, op: Op) -> list[Parts]:
        result = formula(em, *(em.parts(operand) for operand in op.operands))
        return [result if isinstance(result, tuple) else (result,)]

    return handler


for _name, _formula in _TABLE.items():
    handles(_name, form="complex", ignores=ACCURACY)(_handler(_formula))


@handles("stablehlo.atan2", form="complex", ignores=ACCURACY)
def atan2_complex(em: Emitter, op: Op) -> list[Parts]:
    """atan2(y, x) = -i log((x + i y) / sqrt(x² + y²))"""
    return em.through_jax(_arc_tangent, *(em.parts(operand) for operand in op.operands))


def _arc_tangent(y: jax.Array, x: jax.Array) -> jax.Array:
    one, zero = jnp.ones_like(lax.real(x)), jnp.zeros_like(lax.real(x))
    # The root is a power, as in XLA, which decides on which side of the cut a result lies.
    length = lax.pow(x * x + y * y, lax.complex(0.5 * one, zero))
    unit = (x + lax.complex(zero, one) * y) / length
    return lax.complex(zero, -one) * lax.log(unit)
