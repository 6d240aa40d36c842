"""Custom calls that say where a tensor lies: on one device they hand on their operands."""

from __future__ import annotations

from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call
from hlo2onnx.report import SHARDINGS_DROPPED


@handles_call(
    "Sharding",
    "xla.sdy.FuncResultSharding",
    form="any",
    ignores={"backend_config": "tells the partitioner which dimensions it may shard further"},
)
def sharding(em: Emitter, op: CustomCall) -> list[Parts]:
    """@Sharding(x) -> x"""
    em.report.note(SHARDINGS_DROPPED)
    return [em.parts(operand) for operand in op.operands]


@handles_call(
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
    form="any",
    ignores={"backend_config": "tells the partitioner which dimensions it may shard further"},
)
def shard(em: Emitter, op: CustomCall) -> list[Parts]:
    """@SPMDFullToShardShape(x) -> x: the only shard is the whole tensor."""
    if [x.type for x in op.operands] != [x.type for x in op.results]:
        raise unsupported("shards", f"@{op.target} splits a tensor across devices")
    em.report.note(SHARDINGS_DROPPED)
    return [em.parts(operand) for operand in op.operands]


@handles_call(
    "LayoutConstraint",
    "annotate_device_placement",
    "MoveToHost",
    "MoveToDevice",
    form="any",
)
def placement(em: Emitter, op: CustomCall) -> list[Parts]:
    """@LayoutConstraint(x) -> x: the runtime chooses layouts and memory."""
    return [em.parts(operand) for operand in op.operands]
