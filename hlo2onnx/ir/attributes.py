"""Attributes of nodes from Python values."""

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
