"""Reading dtype, shape and constant content of onnx_ir values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.errors import InternalError

Dim = int | oir.SymbolicDim
Shape = tuple[Dim, ...]

INTEGERS = frozenset(
    {
        oir.DataType.INT8,
        oir.DataType.INT16,
        oir.DataType.INT32,
        oir.DataType.INT64,
        oir.DataType.UINT8,
        oir.DataType.UINT16,
        oir.DataType.UINT32,
        oir.DataType.UINT64,
        oir.DataType.INT4,
        oir.DataType.UINT4,
        oir.DataType.INT2,
        oir.DataType.UINT2,
    }
)
UNSIGNED = frozenset(
    {
        oir.DataType.UINT8,
        oir.DataType.UINT16,
        oir.DataType.UINT32,
        oir.DataType.UINT64,
        oir.DataType.UINT4,
        oir.DataType.UINT2,
    }
)
FLOATS = frozenset(
    {
        oir.DataType.FLOAT,
        oir.DataType.DOUBLE,
        oir.DataType.FLOAT16,
        oir.DataType.BFLOAT16,
        oir.DataType.FLOAT8E4M3FN,
        oir.DataType.FLOAT8E4M3FNUZ,
        oir.DataType.FLOAT8E5M2,
        oir.DataType.FLOAT8E5M2FNUZ,
        oir.DataType.FLOAT8E8M0,
        oir.DataType.FLOAT4E2M1,
    }
)


def dtype_of(value: oir.Value) -> oir.DataType:
    """The element type; every value of ours has one from birth."""
    if value.dtype is None:
        raise InternalError(f"value {value.name} has no dtype")
    return value.dtype


def shape_of(value: oir.Value) -> Shape:
    """The shape: an int for a static extent, an `onnx_ir.SymbolicDim` for a dynamic one."""
    if value.shape is None:
        raise InternalError(f"value {value.name} has no shape")
    return tuple(value.shape)


def static_shape(value: oir.Value) -> tuple[int, ...] | None:
    """The shape when every extent is static, else None."""
    shape = shape_of(value)
    numbers = tuple(dim for dim in shape if isinstance(dim, int))
    return numbers if len(numbers) == len(shape) else None


def rank_of(value: oir.Value) -> int:
    """The number of axes."""
    return len(shape_of(value))


def attributes_of(node: oir.Node) -> dict[str, Any]:
    """The attributes of a node by name, as Python values."""
    return {name: attribute.value for name, attribute in node.attributes.items()}


def const_of(value: oir.Value | None) -> np.ndarray | None:
    """The content of an initializer, None for anything computed at run time."""
    if value is None or value.const_value is None:
        return None
    return value.const_value.numpy()


def const_ints(value: oir.Value | None) -> tuple[int, ...] | None:
    """The integers in a constant tensor, flattened; None when it is not constant."""
    array = const_of(value)
    return None if array is None else tuple(int(item) for item in array.reshape(-1))


def const_number(value: oir.Value | None) -> float | int | None:
    """The one number in a constant tensor of one element; None for everything else."""
    array = const_of(value)
    if array is None or array.size != 1 or array.dtype.kind not in "iuf":
        return None
    number: float | int = array.item()
    return number
