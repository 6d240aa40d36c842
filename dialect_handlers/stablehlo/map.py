"""map: a scalar computation applied to whole tensors."""

from __future__ import annotations

from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

ALL_DIMENSIONS = {"dimensions": "StableHLO demands all of them, in order"}


@handles("stablehlo.map", form="real", ignores=ALL_DIMENSIONS)
@handles("stablehlo.map", form="complex", ignores=ALL_DIMENSIONS)
def map_(em: Emitter, op: Op) -> list[Parts]:
    """map(inputs) -> computation(inputs)."""
    computation = em.scalar_function(op.block(0))
    parts = computation(*(em.parts(value) for value in op.operands))
    # A result that reads no argument is still a scalar.
    return [tuple(em.expand(part, em.result_dims(op)) for part in parts)]
