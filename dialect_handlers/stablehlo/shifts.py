"""shift_left, shift_right_arithmetic, shift_right_logical."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common import integer_bits
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.shift_left")
def shift_left(em: Emitter, op: Op) -> oir.Value:
    """shift_left(x, amount) = x << amount; 0 if amount >= the width."""
    x, amount = em.operands(op)
    known = integer_bits.known_amount(em, x, amount)
    if known is not None:
        return integer_bits.shift_left(em, x, known)
    return integer_bits.shift_logical(em, x, amount, "LEFT")


@handles("stablehlo.shift_right_logical")
def shift_right_logical(em: Emitter, op: Op) -> oir.Value:
    """shift_right_logical(x, amount) = x >> amount with zeros shifted in."""
    x, amount = em.operands(op)
    known = integer_bits.known_amount(em, x, amount)
    if known is not None:
        return integer_bits.shift_right_logical(em, x, known)
    return integer_bits.shift_logical(em, x, amount, "RIGHT")


@handles("stablehlo.shift_right_arithmetic")
def shift_right_arithmetic(em: Emitter, op: Op) -> oir.Value:
    """shift_right_arithmetic(x, amount) = x >> amount with copies of the highest bit.

    It shifts in the highest bit for unsigned types too.
    """
    x, amount = em.operands(op)
    known = integer_bits.known_amount(em, x, amount)
    if known is not None:
        return integer_bits.shift_right_arithmetic(em, x, known)
    return integer_bits.shift_arithmetic(em, x, amount)
