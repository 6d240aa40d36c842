"""Attributes of nodes from Python values, and the keys of stored constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.errors import InternalError

_INTEGERS = (bool, int, np.integer)
_FLOATS = (float, np.floating)
_SEQUENCES = (list, tuple)


def attribute_of(name: str, item: Any) -> oir.Attr:
    """The attribute of a node with this value.

    Raises:
        InternalError: ONNX has no attributes of its type.
    """
    if isinstance(item, oir.DataType):
        return oir.AttrInt64(name, int(item))
    if isinstance(item, _INTEGERS):
        return oir.AttrInt64(name, int(item))
    if isinstance(item, _FLOATS):
        return oir.AttrFloat32(name, float(item))
    if isinstance(item, str):
        return oir.AttrString(name, item)
    if isinstance(item, oir.Graph):
        return oir.AttrGraph(name, item)
    if isinstance(item, np.ndarray):
        return oir.AttrTensor(name, oir.Tensor(item))
    if isinstance(item, _SEQUENCES):
        if item and isinstance(item[0], float):
            return oir.AttrFloat32s(name, [float(part) for part in item])
        if item and isinstance(item[0], str):
            return oir.AttrStrings(name, list(item))
        return oir.AttrInt64s(name, [int(part) for part in item])
    raise InternalError(f"attribute {name} has no ONNX form: {item!r}")


# -- constants --------------------------------------------------------------------------------

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
