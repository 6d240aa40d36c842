"""Values at the edges of each element type, by MLIR spelling."""

from __future__ import annotations

import numpy as np

from hlo2onnx.mlir.types import numpy_type

_FLOAT_EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 1e-3, 100.25, -7.75]


def edge_values(element: str) -> np.ndarray:
    """A 1-D array: zeros of both signs, ±1, halves, extremes, infinities and NaN; for integers
    0, ±1, small values and the limits; both booleans. No denormals: XLA flushes them."""
    dtype = numpy_type(element)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "c":
        parts = edge_values("f32" if dtype.itemsize == 8 else "f64").astype(np.float64)
        return (parts[:, None] + 1j * parts[None, :]).reshape(-1).astype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        small = [0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.max // 2]
        negative = [-1, -2, -3, -7, -100, info.min, info.min + 1] if dtype.kind == "i" else []
        return np.array(small + negative, dtype)
    import ml_dtypes

    info = ml_dtypes.finfo(dtype)
    extremes = [float(info.max), float(info.min), float(info.smallest_normal)]
    return np.array([*_FLOAT_EDGES, *extremes, np.inf, -np.inf, np.nan]).astype(dtype)


def pairs(element: str) -> tuple[np.ndarray, np.ndarray]:
    """Every ordered pair of edge values, as two 1-D arrays."""
    values = edge_values(element)
    left, right = np.meshgrid(values, values, indexing="ij")
    return left.reshape(-1), right.reshape(-1)
