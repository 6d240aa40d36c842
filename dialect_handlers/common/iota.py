"""0, 1, 2, ... along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import Dim
from hlo2onnx.lowering.emitter import Emitter

CONSTANT_BYTES = 1 << 18
"""A longer count is made by Range: a quarter of a megabyte is enough for a simpler graph. But one
of bytes, which is pointless from 256 elements on, is stored at any length: the runtime's casts to
f8 are off where they overflow."""


def count_along(em: Emitter, dims: Sequence[Dim], axis: int, dtype: oir.DataType) -> oir.Value:
    """A tensor of these extents that counts along one axis, in any real element type."""
    count = dims[axis]
    column = [count, *(1 for _ in dims[axis + 1 :])]
    if isinstance(count, int) and (
        dtype.bitwidth <= 8 or count * dtype.bitwidth <= 8 * CONSTANT_BYTES
    ):
        # What does not fit the type wraps, or becomes what the type has for "too large".
        with np.errstate(over="ignore"):
            counted = np.arange(count).astype(dtype.numpy()).reshape(column)  # type: ignore[arg-type]
        return em.expand(em.const(counted), dims)
    own = oir.DataType.INT64
    if isinstance(count, int):
        own = dtype if dtype == oir.DataType.INT32 else own
        limit = em.scalar(count, own)
    else:
        limit = em.squeeze(em.extents.value(count), [0])
    numbers = em.Range(em.scalar(0, own), limit, em.scalar(1, own), types=[(own, (count,))])
    numbers = em.cast(numbers, dtype)
    return em.expand(em.unsqueeze(numbers, range(1, len(column))), dims)
