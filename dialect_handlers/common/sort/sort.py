"""Sorting tensors together by a comparator region, or the first k of them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir
from jaxlib.mlir import ir

from dialect_handlers.common.sort.comparator_sort import order_by_comparing
from dialect_handlers.common.sort.comparators import SortKey, sort_keys
from dialect_handlers.common.sort.sort_keys import Key, keys_of, permutation, top_k
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.values import MlirValue, counts_along
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter


def sort_by_region(
    em: Emitter, block: ir.Block, operands: Sequence[MlirValue], axis: int, k: Dim | None = None
) -> list[Parts]:
    """MLIR values sorted together along the axis, stably; the first k elements, or all.

    The comparator takes (lhs_0, rhs_0, lhs_1, rhs_1, ...).
    """
    inputs = [em.parts(value) for value in operands]
    known = sort_keys(em, block)
    if known is None:
        indices, values = _by_comparing(em, block, inputs, axis, k), None
    else:
        keys = [key for name in known for key in _keys(em, block, name, inputs)]
        if len(keys) == 1:
            values, indices = top_k(em, keys[0], axis, k)
        else:
            indices, values = permutation(em, keys, axis, k), None
    results: list[Parts] = []
    for value, parts in zip(operands, inputs, strict=True):
        if counts_along(value, axis):
            results.append((em.cast(indices, dtype_of(parts[0])),))
        elif values is not None and parts[0] is keys[0].tensor:
            results.append((values,))
        else:
            results.append(tuple(em.GatherElements(part, indices, axis=axis) for part in parts))
    return results


def _keys(em: Emitter, block: ir.Block, key: SortKey, inputs: Sequence[Parts]) -> list[Key]:
    """The values that the comparator compares, for all elements: lhs and rhs are the same
    tensors."""
    function = em.scalar_function(block, [key.value])
    (tensor,) = function(*(parts for parts in inputs for _ in range(2)))
    return keys_of(em, tensor, key.order, key.descending)


def _by_comparing(
    em: Emitter, block: ir.Block, inputs: Sequence[Parts], axis: int, k: Dim | None
) -> oir.Value:
    dims = [dim for dim in shape_of(inputs[0][0]) if isinstance(dim, int)]
    if len(dims) != len(shape_of(inputs[0][0])):
        raise UnsupportedOp(
            "custom sort comparators need static shapes",
            "lower the function for static shapes",
        )
    indices = order_by_comparing(em, em.scalar_function(block), inputs, dims, axis)
    return indices if k is None else em.slice(indices, [0], [k], axes=[axis])
