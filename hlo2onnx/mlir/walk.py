"""The operations and values of a module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jaxlib.mlir import ir


def operations_of(module_operation: Any) -> Sequence[Any]:
    """Every operation of the module, in order, safe against changes."""
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        found.append(operation)
        return ir.WalkResult.ADVANCE

    module_operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def values_of(module_operation: Any) -> Iterator[Any]:
    """Every result of an operation and every argument of a block."""
    for operation in operations_of(module_operation):
        yield from operation.results
        for region in operation.regions:
            for block in region.blocks:
                yield from block.arguments
