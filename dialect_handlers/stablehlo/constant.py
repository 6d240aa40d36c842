"""constant: splat, dense and resource."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.frontend.mlir.constants import Splat
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.constant", ignores={"value": "read through Constants, without a copy"})
def constant(em: Emitter, op: Op) -> oir.Value:
    """constant value -> an initializer; a splat becomes Expand of a scalar."""
    content = em.constants.read(op.operation)
    dtype = em.result_type(op).dtype
    if isinstance(content, Splat):
        return em.expand(em.const(content.element, dtype), content.shape)
    return em.const(content, dtype)


@handles("stablehlo.constant", form="complex", ignores={"value": "read through Constants"})
def complex_constant(em: Emitter, op: Op) -> list[Parts]:
    """constant value -> its real and its imaginary part."""
    content = em.constants.read(op.operation)
    array = content.element if isinstance(content, Splat) else content
    parts = [em.const(array.real.copy()), em.const(array.imag.copy())]
    return [tuple(em.expand(part, em.result_dims(op)) for part in parts)]
