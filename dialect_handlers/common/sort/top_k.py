"""The k largest or smallest elements of the last axis, in total order."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.sort.comparators import Order
from dialect_handlers.common.sort.sort_keys import keys_of, top_k
from hlo2onnx.ir.values import Dim, rank_of
from hlo2onnx.lowering.emitter import Emitter


def largest_of(em: Emitter, x: oir.Value, k: Dim, largest: bool = True) -> list[oir.Value]:
    """The elements and their indices (i32); equal ones in the order of their indices."""
    axis = rank_of(x) - 1
    (key,) = keys_of(em, x, Order.TOTAL, descending=largest)
    values, indices = top_k(em, key, axis, k)
    if key.tensor is not x:
        values = em.GatherElements(x, indices, axis=axis)
    return [values, em.cast(indices, oir.DataType.INT32)]
