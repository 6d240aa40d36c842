"""Conversions of floats that models hold as the integers of their bits, as
`hlo2onnx.frontend.mlir.stored_floats` leaves them."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.bits import float_to_stored, stored_to_float
from dialect_handlers.common.casts import narrowed
from hlo2onnx.frontend.mlir.stored_floats import DECODE, ENCODE
from hlo2onnx.frontend.mlir.types import STORED_FLOATS
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call


@handles_call(DECODE)
def decode(em: Emitter, op: CustomCall, *, element: str) -> oir.Value:
    """decode(bits) -> f32 numbers, by a table."""
    return stored_to_float(em, em.operand(op), STORED_FLOATS[element])


@handles_call(ENCODE)
def encode(em: Emitter, op: CustomCall, *, element: str) -> oir.Value:
    """encode(x) -> the bits of x, rounded once to the nearest number, ties to even."""
    return float_to_stored(em, narrowed(em, em.operand(op)), STORED_FLOATS[element])
