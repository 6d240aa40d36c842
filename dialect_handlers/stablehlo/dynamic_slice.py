"""dynamic_slice: one window that starts anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.indices import clamped, clamped_constant, constant_starts, window
from hlo2onnx.graph.values import dtype_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.dynamic_slice", form="parts")
def dynamic_slice(em: Emitter, op: Op, *, slice_sizes: Sequence[int]) -> oir.Value:
    """dynamic_slice(x, starts) -> Slice from the clamped starts; Gather where it takes one row."""
    x, *starts = em.operands(op)
    dims, result = em.static_dims(op.operands[0].type), em.result_dims(op)
    if 0 in result:
        return em.const(np.empty(result), dtype_of(x))
    moving = []
    for axis, (dim, size, start) in enumerate(zip(dims, slice_sizes, starts, strict=True)):
        known = constant_starts(em, start)
        if dim == size:
            continue  # clamped, the start can only be 0
        if known is None:
            moving.append(axis)
        else:
            first = int(clamped_constant(known, [dim - size]).item())
            x = em.slice(x, [first], [first + size], axes=[axis])
    if not moving:
        return x
    limits = [dims[axis] - slice_sizes[axis] for axis in moving]
    if len(moving) == 1 and slice_sizes[moving[0]] == 1:
        start = clamped(em, starts[moving[0]], limits)
        return em.reshape(em.Gather(x, start, axis=moving[0]), result)
    joined = em.concat([em.reshape(starts[axis], [1]) for axis in moving], axis=0)
    sizes = [slice_sizes[axis] for axis in moving]
    return window(em, x, moving, clamped(em, joined, limits), sizes)
