"""Elementwise arithmetic and transcendental ops: mostly rows of tables."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import onnx_ir as oir

from dialect_handlers.common.elementwise import one_formula, one_operator
from dialect_handlers.common.integer_bits import uniform
from dialect_handlers.common.splat import filled_like
from dialect_handlers.stablehlo.division import integer_quotient
from hlo2onnx.ir import accurate_math
from hlo2onnx.ir.values import INTEGERS, UNSIGNED, dtype_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

one_operator(
    {
        "stablehlo.abs": "Abs",
        "stablehlo.ceil": "Ceil",
        "stablehlo.cosine": "Cos",
        "stablehlo.exponential": "Exp",
        "stablehlo.floor": "Floor",
        "stablehlo.log": "Log",
        "stablehlo.round_nearest_even": "Round",
        "stablehlo.sine": "Sin",
        "stablehlo.sqrt": "Sqrt",
        "stablehlo.subtract": "Sub",
        "stablehlo.tan": "Tan",
        "stablehlo.tanh": "Tanh",
    }
)

one_formula(
    {
        "stablehlo.atan2": accurate_math.atan2,
        "stablehlo.cbrt": accurate_math.cbrt,
        "stablehlo.exponential_minus_one": accurate_math.expm1,
        "stablehlo.log_plus_one": accurate_math.log1p,
        "stablehlo.logistic": accurate_math.logistic,
        "stablehlo.round_nearest_afz": accurate_math.round_half_away,
        "stablehlo.rsqrt": accurate_math.rsqrt,
    }
)


def _number_or_bool(number: str, boolean: str) -> Callable[[Emitter, Op], oir.Value]:
    def handler(em: Emitter, op: Op) -> oir.Value:
        x, y = em.operands(op)
        return em.op(boolean if dtype_of(x) == oir.DataType.BOOL else number, x, y)

    handler.__doc__ = f"{number}; {boolean} for booleans"
    return handler


for _name, _number, _boolean in (
    ("stablehlo.add", "Add", "Or"),
    ("stablehlo.multiply", "Mul", "And"),
    ("stablehlo.maximum", "Max", "Or"),
    ("stablehlo.minimum", "Min", "And"),
):
    handles(_name)(_number_or_bool(_number, _boolean))


@handles("stablehlo.negate")
def negate(em: Emitter, op: Op) -> oir.Value:
    """negate(x) -> Neg; 0 - x for unsigned integers, for which ONNX has no Neg."""
    x = em.operand(op)
    unsigned = dtype_of(x) in UNSIGNED
    return em.Sub(em.scalar_like(0, x), x) if unsigned else em.Neg(x)


@handles("stablehlo.sign")
def sign(em: Emitter, op: Op) -> oir.Value:
    """sign(x) -> Sign; sign(-0) = -0 and sign(NaN) = NaN for floats."""
    x = em.operand(op)
    if dtype_of(x) in INTEGERS:
        return em.Sign(x)
    return accurate_math.rounded_once(em, accurate_math.sign, x)


@handles("stablehlo.is_finite")
def is_finite(em: Emitter, op: Op) -> oir.Value:
    """is_finite(x) -> |x| <= the largest finite number; false for infinity and NaN."""
    x = em.operand(op)
    largest = em.scalar_like(ml_dtypes.finfo(dtype_of(x).numpy()).max, x)
    return em.LessOrEqual(em.Abs(x), largest)


@handles("stablehlo.power")
def power(em: Emitter, op: Op) -> oir.Value:
    """power(x, y) -> Pow; repeated squaring for integers."""
    x, y = em.operands(op)
    if dtype_of(x) in INTEGERS:
        return _integer_power(em, x, y)
    return accurate_math.rounded_once(em, accurate_math.power, x, y)


_EXPONENT_BITS = 6


def _integer_power(em: Emitter, x: oir.Value, y: oir.Value) -> oir.Value:
    """x ** y in wrapping arithmetic; the runtime's Pow would compute in double.

    A negative power is 0 unless x is 1 or -1. For the constant -1, XLA divides, and 1 / 0 is -1.
    Like XLA, it uses only the low 6 bits of y. For larger y, powers of an even x are 0, and powers
    of an odd x are wrong.
    """
    if uniform(em, y) == -1:
        return integer_quotient(em, filled_like(em, 1, x), x)
    bounds = em.facts.int_range(y)
    assert bounds is not None
    zero, one, two = (em.scalar_like(number, x) for number in (0, 1, 2))
    result, square, rest = one, x, y
    for bit in range(min(_EXPONENT_BITS, max(bounds.high.bit_length(), 1))):
        if bit:
            square, rest = em.Mul(square, square), em.Div(rest, two)
        is_set = em.Equal(em.Mod(rest, two), one)
        result = em.Where(is_set, em.Mul(result, square), result)
    if bounds.high >> _EXPONENT_BITS:
        is_large = em.GreaterOrEqual(y, em.scalar_like(1 << _EXPONENT_BITS, y))
        result = em.Where(is_large, em.Mul(result, em.Mod(x, two)), result)
    if bounds.low < 0:
        is_unit = em.cast(em.Equal(em.Abs(x), one), dtype_of(x))
        result = em.Where(em.Less(y, zero), em.Mul(result, is_unit), result)
    return result
