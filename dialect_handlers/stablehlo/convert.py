"""convert."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.casts import convert as convert_value
from dialect_handlers.common.splat import zeros_like
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


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
