"""Kinds of element types, those of ml_dtypes included."""

from __future__ import annotations

import ml_dtypes
import numpy as np


def is_integer(dtype: np.dtype) -> bool:
    """Whether the elements are integers, signed or not."""
    return dtype.kind in "iu" or "int" in dtype.name


def is_float(array: np.ndarray) -> bool:
    """Whether the elements are real floats."""
    return array.dtype.kind not in "bc" and not is_integer(array.dtype)


def in_f64(array: np.ndarray) -> np.ndarray:
    """The elements as f64; complex ones as pairs along a new last axis."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], -1).astype(np.float64)
    return array.astype(np.float64)


def without_denormals(array: np.ndarray) -> np.ndarray:
    """An array with zeros of the same sign instead of denormals of f32 and f64.

    Processors compute f16 and narrower floats in f32, where their denormals are ordinary numbers.
    """
    if array.dtype.kind == "c":
        found = np.empty_like(array)
        found.real, found.imag = without_denormals(array.real), without_denormals(array.imag)
        return found
    if array.dtype.name not in ("bfloat16", "float32", "float64"):
        return array
    is_denormal = np.abs(array) < ml_dtypes.finfo(array.dtype).smallest_normal
    with np.errstate(all="ignore"):
        return np.where(is_denormal, array * array.dtype.type(0), array)
