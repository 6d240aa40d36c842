"""iota: counting along an axis."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.iota import count_along
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.iota")
def iota(em: Emitter, op: Op, *, iota_dimension: int) -> oir.Value:
    """iota() -> Expand of 0, 1, 2, ... along the axis, in the element type."""
    return count_along(em, em.result_dims(op), iota_dimension, em.result_type(op).dtype)


@handles("stablehlo.iota", form="complex")
def complex_iota(em: Emitter, op: Op, *, iota_dimension: int) -> list[Parts]:
    """iota() of complex numbers -> the real iota, with imaginary part zero."""
    dims, (part, _) = em.result_dims(op), parts_of(op.results[0].type)
    real = count_along(em, dims, iota_dimension, part.dtype)
    return [(real, em.expand(em.scalar(0, part.dtype), dims))]
