"""The operations and values of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from jaxlib.mlir import ir

if TYPE_CHECKING:
    MlirValue: TypeAlias = ir.Value[ir.Type]
else:
    MlirValue = ir.Value


def operations_in(block: ir.Block) -> list[ir.Operation]:
    """The operations of a block in order, without those in their regions."""
    return [item.operation for item in block.operations]


def operations_of(module_operation: ir.Operation) -> list[ir.Operation]:
    """Every operation of the module in order. The module may change afterwards."""
    found: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        found.append(operation)
        return ir.WalkResult.ADVANCE

    module_operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def values_of(module_operation: ir.Operation) -> Iterator[MlirValue]:
    """Every result of an operation and every argument of a block."""
    for operation in operations_of(module_operation):
        yield from operation.results
        for region in operation.regions:
            for block in region.blocks:
                yield from block.arguments


def types_in(module_operation: ir.Operation) -> set[ir.Type]:
    """The types of all results and arguments of blocks. A module has far fewer types than
    values."""
    return {value.type for value in values_of(module_operation)}


def module_of(operation: ir.Operation) -> ir.Operation:
    """The outermost operation around an operation: its module."""
    while operation.parent is not None:
        operation = operation.parent.operation
    return operation


def is_used(value: MlirValue) -> bool:
    """Whether an operation has the value as an operand."""
    return any(True for _ in value.uses)
