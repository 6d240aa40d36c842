"""sort."""

from __future__ import annotations

from dialect_handlers.common.sorting import sort_by_region
from hlo2onnx.ir.values import shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles(
    "stablehlo.sort",
    form="any",
    ignores={"is_stable": "the sort is always stable, which an unstable one may be too"},
)
def sort(em: Emitter, op: Op, *, dimension: int = -1) -> list[Parts]:
    """sort(inputs) -> TopK by the comparator's key; GatherElements for other inputs."""
    inputs = [em.parts(operand) for operand in op.operands]
    shape = shape_of(inputs[0][0])
    axis = dimension % len(shape)
    if shape[axis] in (0, 1) or 0 in shape:
        return inputs
    return sort_by_region(em, op.block(0), op.operands, axis)
