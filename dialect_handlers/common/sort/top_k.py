"""The k largest or smallest elements of the last axis, in total order."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.sort.comparators import Order
from dialect_handlers.common.sort.sort_keys import keys_of, permutation, top_k
from hlo2onnx.ir.values import Dim, rank_of
from hlo2onnx.lowering.emitter import Emitter


def largest_of(em: Emitter, x: oir.Value, k: Dim, largest: bool = True) -> list[oir.Value]:
    """The elements and their indices (i32); equal ones in the order of their indices."""
    axis = rank_of(x) - 1
    keys = keys_of(em, x, Order.TOTAL, descending=largest)
    if len(keys) == 1 and keys[0].tensor is x:
        values, indices = top_k(em, keys[0], axis, k)
    else:
        indices = permutation(em, keys, axis, k)
        values = em.GatherElements(x, indices, axis=axis)
    return [values, em.cast(indices, oir.DataType.INT32)]
