"""dynamic_slice: one window that starts anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.indices import clamped, clamped_constant, constant_starts, window
from hlo2onnx.graph.dims import canonical
from hlo2onnx.graph.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.dynamic_slice", form="parts")
def dynamic_slice(em: Emitter, op: Op, *, slice_sizes: Sequence[int]) -> oir.Value:
    """dynamic_slice(x, starts) -> Slice from the clamped starts; Gather where it takes one row."""
    x, *starts = em.operands(op)
    if 0 in slice_sizes:
        return em.const(np.empty(slice_sizes), dtype_of(x))
    limits = [canonical(dim - size) for dim, size in zip(shape_of(x), slice_sizes, strict=True)]  # type: ignore[operator]
    known = {axis: _known(em, starts[axis], limit) for axis, limit in enumerate(limits)}
    still = {axis: first for axis, first in known.items() if first is not None}
    ends = [first + slice_sizes[axis] for axis, first in still.items()]
    x = em.slice(x, list(still.values()), ends, axes=list(still))
    moving = [axis for axis in known if axis not in still]
    if not moving:
        return x
    if len(moving) == 1 and slice_sizes[moving[0]] == 1:
        start = clamped(em, starts[moving[0]], [limits[moving[0]]])
        return em.reshape(em.Gather(x, start, axis=moving[0]), slice_sizes)
    joined = em.concat([em.reshape(starts[axis], [1]) for axis in moving], axis=0)
    sizes = [slice_sizes[axis] for axis in moving]
    return window(em, x, moving, clamped(em, joined, [limits[axis] for axis in moving]), sizes)


def _known(em: Emitter, start: oir.Value, limit: Dim) -> int | None:
    """The clamped start, if it is known; a slice as long as its axis starts at 0."""
    if limit == 0:
        return 0
    known = clamped_constant(constant_starts(em, start), [limit])
    return None if known is None else int(known.item())
