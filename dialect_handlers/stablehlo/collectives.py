"""Collectives: among groups of one device, what each hands to itself."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.tensors import zeros_like
from hlo2onnx.frontend.mlir.devices.meshes import Devices
from hlo2onnx.frontend.mlir.values import module_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

IGNORES = {
    "replica_groups": "`Devices.groups` reads them",
    "channel_handle": "tells the exchanges of a program apart",
    "use_global_device_ids": "says how the members of a group of one are numbered",
    "has_dynamic_root": "the last operand says which of the group's one member is the root",
    "all_gather_dim": "there is one tensor to join",
    "scatter_dimension": "there is one slice to keep, the whole tensor",
    "split_dimension": "there is one slice to send, the whole tensor",
    "concat_dimension": "there is one slice to join",
    "split_count": "it is the size of a group",
}


@handles(
    "stablehlo.all_gather",
    "stablehlo.all_reduce",
    "stablehlo.all_to_all",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_reduce",
    "stablehlo.reduce_scatter",
    form="any",
    ignores=IGNORES,
)
def among_one(em: Emitter, op: Op) -> list[Parts]:
    """all_gather, all_reduce, ...(xs) -> xs: each group has one device."""
    Devices(module_of(op.operation)).groups(op.operation)  # refuses those of other devices
    return [em.parts(operand) for operand in op.operands[: len(op.results)]]


@handles(
    "stablehlo.collective_permute",
    form="any",
    ignores={
        "channel_handle": IGNORES["channel_handle"],
        "source_target_pairs": "`Devices.pairs` reads them",
    },
)
def collective_permute(em: Emitter, op: Op) -> list[Parts]:
    """collective_permute(x) -> x if the device sends to itself, zeros if no device sends to it."""
    if Devices(module_of(op.operation)).pairs(op.operation):  # refuses those of other devices
        return [em.parts(operand) for operand in op.operands]
    return [tuple(zeros_like(em, part) for part in em.parts(x)) for x in op.operands]


@handles("stablehlo.partition_id", "stablehlo.replica_id")
def device_number(em: Emitter, op: Op) -> oir.Value:
    """partition_id(), replica_id() -> 0: there is one device."""
    return em.scalar(0, em.result_type(op).dtype)


@handles("stablehlo.async_start", form="any")
def async_start(em: Emitter, op: Op) -> list[Parts]:
    """async_start(xs) { body } -> the results of the body, computed in place."""
    results = em.inline(op.block(0), [em.parts(operand) for operand in op.operands])
    return [tuple(part for parts in results for part in parts)]


@handles("stablehlo.async_done", form="any")
def async_done(em: Emitter, op: Op) -> list[oir.Value]:
    """async_done(future) -> the results of async_start."""
    return list(em.parts(op.operands[0]))
