"""MLIR values and the ops that make them."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir


def defining_operation(value: Any) -> Any:
    """The operation whose result the value is; None for the argument of a block."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation
