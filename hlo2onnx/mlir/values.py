"""MLIR values and the operations that make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
from jaxlib.mlir import ir

from hlo2onnx.ir.values import INTEGERS
from hlo2onnx.mlir.types import parts_of

if TYPE_CHECKING:
    MlirValue = ir.Value[ir.Type]
else:  # only the stubs are generic
    MlirValue = ir.Value


def defining_operation(value: Any) -> Any:
    """The operation whose result the value is; None for the argument of a block."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def leading_to(block: Any, values: Sequence[Any]) -> list[Any]:
    """The operations of a block that some of its values depend on, in order."""
    read, found = set(values), []

    def note_operands(operation: Any) -> Any:
        read.update(operation.operands)
        return ir.WalkResult.ADVANCE

    for operation in reversed([item.operation for item in block.operations]):
        if not read.isdisjoint(operation.results):
            found.append(operation)
            operation.walk(note_operands)
    return found[::-1]


_EXTENT_BITS = 32
"""Integers of so many bits have room for any extent that is not known."""


def counts_along(value: Any, axis: int) -> bool:
    """Whether a tensor holds 0, 1, 2, ... along the axis, in an integer type that has room."""
    operation = defining_operation(value)
    if operation is None or operation.name not in ("stablehlo.iota", "stablehlo.dynamic_iota"):
        return False
    (part, *_) = parts_of(value.type)
    extent = part.shape[axis]
    if operation.attributes["iota_dimension"].value != axis or part.dtype not in INTEGERS:
        return False
    if extent is None:
        return part.dtype.bitwidth >= _EXTENT_BITS
    return extent - 1 <= int(ml_dtypes.iinfo(part.dtype.numpy()).max)
