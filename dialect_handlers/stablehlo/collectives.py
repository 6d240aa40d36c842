"""Collectives: among groups of one device, what each hands to itself."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.tensors import zeros_like
from hlo2onnx.frontend.mlir.shardings import device_count, largest_group
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

IGNORES = {
    "replica_groups": "`largest_group` reads them",
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
    size = largest_group(op.operation)
    if size > 1:
        raise unsupported("groups", f"a group has {size} devices")
    return [em.parts(operand) for operand in op.operands[: len(op.results)]]


@handles(
    "stablehlo.collective_permute",
    form="any",
    ignores={"channel_handle": IGNORES["channel_handle"]},
)
def collective_permute(em: Emitter, op: Op, *, source_target_pairs: np.ndarray) -> list[Parts]:
    """collective_permute(x) -> x if the device sends to itself, zeros if no device sends to it."""
    count, pairs = device_count(op.operation), source_target_pairs.reshape(-1, 2).tolist()
    if sorted(pairs) == [[device, device] for device in range(count)]:
        return [em.parts(operand) for operand in op.operands]
    if pairs:
        raise unsupported("groups", f"source_target_pairs = {pairs}")
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
