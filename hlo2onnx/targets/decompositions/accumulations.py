"""CumSum and scatters that combine, for devices without them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import at_most, is_static, product
from hlo2onnx.ir.values import FLOATS, attributes_of, const_ints, dtype_of, present, shape_of
from hlo2onnx.targets.builder import Decompose, TargetBuilder

T = oir.DataType

_LONGEST: Final = 256
"""The longest axis of a running sum of integers: a mask has the square of its elements."""


def running_sum(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """CumSum(x)[i] = the sum over j of mask[i, j] * x[j], along a short static axis."""
    x, axis = present(node.inputs)
    dims, at = shape_of(x), const_ints(axis)
    count = dims[at[0]] if at is not None and is_static(dims) else None
    if at is None or not isinstance(count, int) or not 0 < count <= _LONGEST:
        return None
    place, given = at[0] % len(dims), attributes_of(node)
    mask = np.tri(count, k=-given.get("exclusive", 0), dtype=dtype_of(x).numpy())
    mask = mask.T if given.get("reverse", 0) else mask
    outer, inner = product(dims[:place]), product(dims[place + 1 :])
    terms = b.Mul(b.reshape(x, (outer, 1, count, inner)), b.const(mask[:, :, None]))
    return b.reshape(b.ReduceSum(terms, b.i64([2]), keepdims=0), dims)


def added_rows(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """ScatterND[add](x, i, y) = ScatterElements[add](x, i, y) where i holds places of rows."""
    x, index, updates = present(node.inputs)
    *places, depth = shape_of(index)
    is_sum = node.attributes.get_string("reduction", "none") == "add"
    if not is_sum or depth != 1 or not b.supports("ScatterElements[add]", dtype_of(x)):
        return None
    rows = shape_of(x)[1:]
    at = b.reshape(index, (product(places), *(1 for _ in rows)))
    at = b.expand(at, (product(places), *rows))
    new = b.reshape(updates, (product(places), *rows))
    return b.ScatterElements(x, at, new, axis=0, reduction="add")


_MOST_PAIRS: Final = 1 << 20
"""The most pairs of an update and a row that are compared."""


def scattered_extreme(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """ScatterElements[max](x, i, y)[r] = the maximum of x[r] and of all y[k] with i[k] = r.

    Legal for every index. NaN and the sign of zero are as in Max, as ScatterElements promises
    nothing about them.
    """
    x, index, updates = present(node.inputs)
    dtype, dims, count = dtype_of(x), shape_of(x), product(shape_of(index))
    combine = {"max": "Max", "min": "Min"}.get(node.attributes.get_string("reduction", "none"))
    if combine is None or len(dims) != 1 or not at_most(product((*dims, count)), _MOST_PAIRS):
        return None
    (rows,) = dims
    if not isinstance(rows, int) or count == 0:
        return None
    from_end = b.Less(index, b.scalar_like(0, index))
    at = b.Where(from_end, b.Add(index, b.scalar_like(rows, index)), index)
    row = b.const(np.arange(rows, dtype=dtype_of(index).numpy())[:, None])
    neutral = _least(dtype) if combine == "Max" else -_least(dtype) - (dtype not in FLOATS)
    hits = b.Where(b.Equal(row, b.unsqueeze(at, [0])), updates, b.scalar(neutral, dtype))
    return b.op(combine, x, b.op(f"Reduce{combine}", hits, b.i64([1]), keepdims=0))


def _least(dtype: oir.DataType) -> float:
    return -math.inf if dtype in FLOATS else int(np.iinfo(dtype.numpy()).min)


ACCUMULATIONS: Mapping[tuple[str, oir.DataType], Decompose] = {
    **{("CumSum", dtype): running_sum for dtype in (T.INT32, T.INT64)},
    **{("ScatterElements", dtype): scattered_extreme for dtype in (*FLOATS, T.INT32, T.INT64)},
    **{("ScatterND", dtype): added_rows for dtype in (*FLOATS, T.INT32, T.INT64)},
}
"""The decomposition of each operator and element type."""
