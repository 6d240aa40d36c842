"""complex, real, imag."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.splat import zeros_like
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


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
