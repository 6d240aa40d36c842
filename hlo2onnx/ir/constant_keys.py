"""What a model stores constants under: keys that equal ones share, and their names."""

from __future__ import annotations

from typing import Any

import numpy as np

_SHARED_BYTES = 1024
"""Constants up to this size are shared by content; larger ones by identity of their memory."""


def key_of(array: np.ndarray) -> tuple[Any, ...]:
    """What constants of the same key have in common: their content."""
    if array.nbytes <= _SHARED_BYTES:
        return (array.dtype, array.shape, array.tobytes())
    address = array.__array_interface__["data"][0]
    return (array.dtype, array.shape, array.strides, address)


def label_of(array: np.ndarray) -> str:
    """A short text for the name of a constant: its number, or its shape."""
    if array.size == 1:
        return str(array.reshape(-1)[0])
    return "x".join(map(str, array.shape))
