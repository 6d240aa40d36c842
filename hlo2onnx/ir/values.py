"""Reading dtype, shape and constant content of onnx_ir values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar, cast

import numpy as np
import onnx_ir as oir

from hlo2onnx.errors import InternalError

Dim = int | oir.SymbolicDim
Shape = tuple[Dim, ...]

_Item = TypeVar("_Item")
_T = oir.DataType

UNSIGNED = frozenset({_T.UINT2, _T.UINT4, _T.UINT8, _T.UINT16, _T.UINT32, _T.UINT64})
INTEGERS = UNSIGNED | {_T.INT2, _T.INT4, _T.INT8, _T.INT16, _T.INT32, _T.INT64}
FLOATS = frozenset(
    {_T.FLOAT, _T.DOUBLE, _T.FLOAT16, _T.BFLOAT16, _T.FLOAT8E4M3FN, _T.FLOAT8E4M3FNUZ,
     _T.FLOAT8E5M2, _T.FLOAT8E5M2FNUZ, _T.FLOAT8E8M0, _T.FLOAT4E2M1}
)  # fmt: skip


def dtype_of(value: oir.Value) -> oir.DataType:
    """The element type, which every value has from its creation."""
    dtype = value.dtype
    if dtype is None:
        raise InternalError(f"value {value.name} has no dtype")
    return dtype


def shape_of(value: oir.Value) -> Shape:
    """The shape: an int for a static extent, an `onnx_ir.SymbolicDim` for a dynamic one."""
    shape = value.shape
    if shape is None:
        raise InternalError(f"value {value.name} has no shape")
    return shape.dims


def static_shape(value: oir.Value) -> tuple[int, ...] | None:
    """The shape when every extent is static, else None."""
    shape = shape_of(value)
    for dim in shape:
        if not isinstance(dim, int):
            return None
    return cast("tuple[int, ...]", shape)


def size_of(value: oir.Value | None) -> int | None:
    """The number of elements when every extent is static, else None."""
    dims = None if value is None else static_shape(value)
    return None if dims is None else math.prod(dims)


def present(values: Iterable[oir.Value | None]) -> list[oir.Value]:
    """The values without omitted optional ones."""
    return [value for value in values if value is not None]


def complete(items: Iterable[_Item | None]) -> list[_Item] | None:
    """The items as a list; None if one of them is None."""
    found = list(items)
    known = [item for item in found if item is not None]
    return known if len(known) == len(found) else None


def rank_of(value: oir.Value) -> int:
    """The number of axes."""
    if value.shape is None:
        raise InternalError(f"value {value.name} has no shape")
    return value.shape.rank()


def origin(value: oir.Value) -> oir.Value:
    """The value that a value is a copy of."""
    node = value.producer()
    while node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        value = node.inputs[0]
        node = value.producer()
    return value


def attributes_of(node: oir.Node) -> dict[str, Any]:
    """The attributes of a node by name, as Python values."""
    return {name: attribute.value for name, attribute in node.attributes.data.items()}


def noted(thing: oir.Value | oir.Node, note: str) -> Any:
    """`thing.meta.get(note)`, without making a store for things that have none."""
    store = thing._metadata
    return None if store is None else store.data.get(note)


WEIGHT = "hlo2onnx.weight"
"""Where a constant that is a weight keeps its `hlo2onnx.ir.weights.Weight`."""


def is_constant(value: oir.Value | None) -> bool:
    """Whether a value is an initializer, which may be a weight."""
    return value is not None and value.const_value is not None


def const_of(value: oir.Value | None) -> np.ndarray | None:
    """The content of an initializer; None for a weight, and for anything computed at run time."""
    if value is None or (tensor := value.const_value) is None:
        return None
    weight = noted(value, WEIGHT)
    if weight is not None and weight.is_opaque:
        return None
    return tensor.numpy()


def const_ints(value: oir.Value | None) -> tuple[int, ...] | None:
    """The integers in a constant tensor, flattened; None when it is not constant."""
    array = const_of(value)
    return None if array is None else tuple(map(int, array.reshape(-1).tolist()))


def const_number(value: oir.Value | None) -> float | int | None:
    """The one number in a constant tensor of one element; None for everything else."""
    array = const_of(value)
    if array is None or array.size != 1 or array.dtype.kind not in "iuf":
        return None
    number: float | int = array.item()
    return number
