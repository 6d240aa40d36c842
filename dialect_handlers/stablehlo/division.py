"""divide and remainder of real numbers."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.integer_bits import bits, in_range, is_unsigned
from dialect_handlers.common.splat import filled_like
from hlo2onnx.frontend.mlir.values import is_made_of_iota
from hlo2onnx.ir.nodes import BY_RECIPROCAL
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import FLOATS, dtype_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


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
