"""dynamic_update_slice: one window that is written anywhere."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.start_indices import clamped, clamped_constant, constant_starts
from dialect_handlers.common.update_window import NOT_A_ROW, Start, write_window
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.dims import difference
from hlo2onnx.ir.values import Dim, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.dynamic_update_slice", form="any")
def dynamic_update_slice(em: Emitter, op: Op) -> list[Parts]:
    """dynamic_update_slice(x, update, starts) -> x with the update from the clamped starts on."""
    x, update = em.parts(op.operands[0]), em.parts(op.operands[1])
    if x in em.rows:
        # The only write to a buffer that the enclosing loop returns as a stack of rows.
        if shape_of(update[0])[1:] != shape_of(x[0])[1:]:
            raise UnsupportedOp(*NOT_A_ROW)
        em.rows[x] = update
        return [x]
    dims, sizes = shape_of(x[0]), shape_of(update[0])
    if 0 in sizes:
        return [x]
    limits = [difference(dim, size) for dim, size in zip(dims, sizes, strict=True)]
    places = {
        axis: _start(em, em.operand(op, 2 + axis), limit)
        for axis, limit in enumerate(limits)
        if limit != 0
    }
    return [tuple(write_window(em, *parts, places) for parts in zip(x, update, strict=True))]


def _start(em: Emitter, start: oir.Value, limit: Dim) -> Start:
    known = clamped_constant(constant_starts(em, start), [limit])
    if known is not None:
        return int(known.item())
    return em.reshape(em.cast(clamped(em, start, [limit]), oir.DataType.INT64), [1])
