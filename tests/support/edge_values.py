"""Values at the edges of each element type, by MLIR spelling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo2onnx.frontend.mlir.types import numpy_type

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


def near_powers(powers: Sequence[int], dtype: type, *shape: int, seed: int = 0) -> np.ndarray:
    """Integers next to powers of two and the ends of the type, and any bits."""
    info, rng = np.iinfo(dtype), np.random.default_rng(seed)
    near = [sign * 2**k + step for k in powers for sign in (1, -1) for step in (-1, 0, 1)]
    edges = np.array([n for n in {*near, info.min, info.max} if info.min <= n <= info.max], dtype)
    noise = rng.integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.6, edges[rng.integers(len(edges), size=shape)], noise)
