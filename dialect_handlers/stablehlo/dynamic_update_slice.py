"""dynamic_update_slice: one window that is written anywhere."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.indices import clamped, clamped_constant, constant_starts
from dialect_handlers.common.windows import Start, write_window
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.dynamic_update_slice", form="parts")
def dynamic_update_slice(em: Emitter, op: Op) -> oir.Value:
    """dynamic_update_slice(x, update, starts) -> x with the update from the clamped starts on."""
    x, update, *starts = em.operands(op)
    dims, sizes = (em.static_dims(operand.type) for operand in op.operands[:2])
    if 0 in sizes:
        return x
    limits = [dim - size for dim, size in zip(dims, sizes, strict=True)]
    places = {axis: _start(em, starts[axis], limit) for axis, limit in enumerate(limits) if limit}
    return write_window(em, x, update, places)


def _start(em: Emitter, start: oir.Value, limit: int) -> Start:
    known = constant_starts(em, start)
    if known is not None:
        return int(clamped_constant(known, [limit]).item())
    return em.reshape(em.cast(clamped(em, start, [limit]), oir.DataType.INT64), [1])
