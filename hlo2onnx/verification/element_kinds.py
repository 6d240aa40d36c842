"""Kinds of element types, those of ml_dtypes included."""

from __future__ import annotations

import numpy as np


def is_integer(dtype: np.dtype) -> bool:
    """Whether the elements are integers, signed or not."""
    return dtype.kind in "iu" or "int" in dtype.name


def is_float(array: np.ndarray) -> bool:
    """Whether the elements are real floats."""
    return array.dtype.kind not in "bc" and not is_integer(array.dtype)
