"""Shardy ops: the values are whole tensors, the model runs on one device."""

from __future__ import annotations

from hlo2onnx.frontend.mlir.shardings import is_of_no_axes
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.report import SHARDINGS_DROPPED

PLACEMENT = "says where the tensor lies, not what it holds"

MOVES_BETWEEN_DEVICES = {
    "sdy.sharding_constraint": ("sharding",),
    "sdy.reshard": ("sharding",),
    "sdy.propagation_barrier": ("allowed_direction",),
    "sdy.data_flow_edge": ("sharding",),
    "sdy.all_gather": ("gathering_axes", "out_sharding"),
    "sdy.all_slice": ("slicing_axes", "out_sharding"),
    "sdy.all_to_all": ("params", "out_sharding"),
    "sdy.collective_permute": ("out_sharding",),
}
"""Ops that only change the layout of their operand over the devices."""


def _same(em: Emitter, op: Op) -> list[Parts]:
    """op(x) -> x"""
    if not is_of_no_axes(op.operation):
        em.report.note(SHARDINGS_DROPPED)
    return [em.parts(operand) for operand in op.operands]


for _name, _attributes in MOVES_BETWEEN_DEVICES.items():
    handles(_name, form="any", ignores=dict.fromkeys(_attributes, PLACEMENT))(_same)


@handles("sdy.sharding_group", form="any", ignores={"group_id": PLACEMENT})
def sharding_group(em: Emitter, op: Op) -> list[Parts]:
    """sharding_group x -> nothing; it only says which tensors are sharded alike."""
    em.report.note(SHARDINGS_DROPPED)
    return []


@handles(
    "sdy.named_computation",
    form="any",
    ignores={"name": "a label", "in_shardings": PLACEMENT, "out_shardings": PLACEMENT},
)
def named_computation(em: Emitter, op: Op) -> list[Parts]:
    """named_computation "name" (args) { body } -> the body, inlined."""
    return em.inline(op.block(0), [em.parts(operand) for operand in op.operands])


@handles(
    "sdy.manual_computation",
    form="any",
    ignores=dict.fromkeys(("in_shardings", "out_shardings", "manual_axes"), PLACEMENT),
)
def manual_computation(em: Emitter, op: Op) -> list[Parts]:
    """manual_computation(args) { body } -> the body, inlined: one device holds the only shard.

    `jax.shard_map` lowers to this op. Those of several devices are rewritten before, by
    `hlo2onnx.frontend.mlir.devices`.
    """
    em.report.note(SHARDINGS_DROPPED)
    return em.inline(op.block(0), [em.parts(operand) for operand in op.operands])
