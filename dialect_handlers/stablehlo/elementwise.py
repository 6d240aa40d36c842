"""Elementwise arithmetic and transcendental ops: mostly rows of tables."""

from __future__ import annotations

import ml_dtypes
import onnx_ir as oir

from dialect_handlers.common.bits import bits, in_range, is_unsigned, uniform
from dialect_handlers.common.casts import convert as convert_value
from dialect_handlers.common.elementwise import by_element_type, one_formula, one_operator
from dialect_handlers.common.tensors import filled_like, zeros_like
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.frontend.mlir.values import is_made_of_iota
from hlo2onnx.ir import accurate_math
from hlo2onnx.ir.notes import BY_RECIPROCAL
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import FLOATS, INTEGERS, UNSIGNED, dtype_of, rank_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

# -- divide and remainder of real numbers -----------------------------------------------------


@handles("stablehlo.divide", ignores={"result_accuracy": "Div is correctly rounded"})
def divide(em: Emitter, op: Op) -> oir.Value:
    """divide(x, y) -> Div; integers truncate.

    For integers x / 0 = -1 (all ones), INT_MIN / -1 = INT_MIN, and x / x = 1 even for x = 0.
    """
    x, y = em.operands(op)
    if dtype_of(x) in FLOATS:
        quotient: oir.Value = em.Div(x, y)
        # XLA does not compute an iota before the program runs; the rules do.
        if (node := quotient.producer()) and not is_made_of_iota(op.operands[1]):
            node.meta[BY_RECIPROCAL] = True
        return quotient
    return filled_like(em, 1, x) if _by_itself(em, op) else integer_quotient(em, x, y)


def integer_quotient(em: Emitter, x: oir.Value, y: oir.Value) -> oir.Value:
    """x / y of integers, truncated; x / 0 = -1 (all ones) and INT_MIN / -1 = INT_MIN."""
    zero = _is_zero(em, y)
    quotient = em.Div(x, _safe_divisor(em, x, y, zero))
    return quotient if zero is None else em.Where(zero, bits(em, -1, x), quotient)


def _by_itself(em: Emitter, op: Op) -> bool:
    """Whether XLA sees that the operands of a division are the same value.

    A call, such as @floor_divide for `i // i`, hides this. In programs with symbolic shapes it does
    not: the pass that makes their shapes static inlines the calls.
    """
    x, y = op.operands
    return bool(x == y) or (em.has_symbols and em.parts(x) == em.parts(y))


@handles("stablehlo.remainder")
def remainder(em: Emitter, op: Op) -> oir.Value:
    """remainder(x, y) = x - trunc(x / y) · y, with the sign of x; x rem 0 = x for integers.

    For floats it is Mod(fmod=1), which is exact. For integers Mod(fmod=1) computes in doubles.
    Mod(fmod=0) is the same if no operand is negative.
    """
    x, y = em.operands(op)
    result: oir.Value
    if dtype_of(x) in FLOATS:
        return em.Mod(x, y, fmod=1)
    zero = _is_zero(em, y)
    highest = range_of_type(dtype_of(x)).high
    if in_range(em, x, 0, highest) and in_range(em, y, 0, highest):
        result = em.Mod(x, _safe_divisor(em, x, y, zero))
        return result if zero is None else em.Where(zero, x, result)
    # A divisor that is unsafe was replaced by 1 in the quotient only: x - x · 0 = x, and
    # INT_MIN - INT_MIN · -1 wraps to 0.
    quotient = em.Div(x, _safe_divisor(em, x, y, zero))
    return em.Sub(x, em.Mul(quotient, y))


def _is_zero(em: Emitter, y: oir.Value) -> oir.Value | None:
    """Where y is 0; None if nowhere."""
    low, high = range_of_type(dtype_of(y))
    if in_range(em, y, 1, high) or in_range(em, y, low, -1):
        return None
    return em.Equal(y, em.scalar_like(0, y))


def _safe_divisor(em: Emitter, x: oir.Value, y: oir.Value, zero: oir.Value | None) -> oir.Value:
    """y with 1 where x / y would trap: y = 0, and y = -1 with x the least integer."""
    traps = [zero, _overflows(em, x, y)]
    unsafe = [trap for trap in traps if trap is not None]
    if not unsafe:
        return y
    condition = unsafe[0] if len(unsafe) == 1 else em.Or(*unsafe)
    return em.Where(condition, em.scalar_like(1, y), y)


def _overflows(em: Emitter, x: oir.Value, y: oir.Value) -> oir.Value | None:
    """Where x / y exceeds the type; None if nowhere. Below 32 bits it wraps, like a product."""
    low, high = range_of_type(dtype_of(x))
    if is_unsigned(x) or dtype_of(x).bitwidth < 32 or in_range(em, x, low + 1, high):
        return None
    if in_range(em, y, 0, high) or in_range(em, y, low, -2):
        return None
    least = em.Equal(x, em.scalar_like(low, x))
    return em.And(least, em.Equal(y, em.scalar_like(-1, y)))


# -- elementwise arithmetic and transcendental ops: mostly rows of tables ---------------------


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


by_element_type(
    {
        "stablehlo.add": ("Add", "Or"),
        "stablehlo.multiply": ("Mul", "And"),
        "stablehlo.maximum": ("Max", "Or"),
        "stablehlo.minimum": ("Min", "And"),
    }
)


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


# -- select and clamp -------------------------------------------------------------------------


@handles("stablehlo.select", form="parts")
def select(em: Emitter, op: Op) -> oir.Value:
    """select(pred, on_true, on_false) -> Where; a scalar pred broadcasts."""
    return em.Where(*em.operands(op))


@handles("stablehlo.clamp")
def clamp(em: Emitter, op: Op) -> oir.Value:
    """clamp(lo, x, hi) = min(max(lo, x), hi); NaN if any operand is NaN.

    Clip does the same for scalar bounds, but ignores a bound that is NaN.
    """
    lo, x, hi = em.operands(op)
    clamped: oir.Value
    if not rank_of(lo) and not rank_of(hi) and em.facts.nan_free(lo) and em.facts.nan_free(hi):
        clamped = em.Clip(x, lo, hi)
    else:
        clamped = em.Min(em.Max(x, lo), hi)
    return clamped


# -- convert ----------------------------------------------------------------------------------


@handles("stablehlo.convert")
def convert(em: Emitter, op: Op) -> oir.Value:
    """convert(x) -> Cast, with further nodes where Cast differs from StableHLO."""
    return convert_value(em, em.operand(op), em.result_type(op).dtype)


@handles("stablehlo.convert", form="complex")
def convert_complex(em: Emitter, op: Op) -> list[Parts]:
    """convert of complex numbers -> Cast of both parts.

    A real operand gets imaginary part 0. A real result drops the imaginary part.
    """
    parts, types = em.parts(op.operands[0]), parts_of(op.results[0].type)
    converted = [convert_value(em, x, t.dtype) for x, t in zip(parts, types, strict=False)]
    if len(types) > len(parts):
        converted.append(zeros_like(em, converted[0]))
    return [tuple(converted)]


# -- map: a scalar computation applied to whole tensors ---------------------------------------


ALL_DIMENSIONS = {"dimensions": "StableHLO demands all of them, in order"}


@handles("stablehlo.map", form="real", ignores=ALL_DIMENSIONS)
@handles("stablehlo.map", form="complex", ignores=ALL_DIMENSIONS)
def map_(em: Emitter, op: Op) -> list[Parts]:
    """map(inputs) -> computation(inputs)."""
    computation = em.scalar_function(op.block(0))
    parts = computation(*(em.parts(value) for value in op.operands))
    # A result that reads no argument is still a scalar.
    return [tuple(em.expand(part, em.result_dims(op)) for part in parts)]
