"""Loops that cannot end, which a transformation can make. XLA would run them until the limit."""

from __future__ import annotations

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    leading_to,
    operands_within,
    operations_in,
    operations_of,
)


def has_endless_loop(module: ir.Operation) -> bool:
    """Whether the condition of a loop stays the same in all trips."""
    loops = (each for each in operations_of(module) if each.name == "stablehlo.while")
    return any(map(_is_endless, loops))


def _is_endless(loop: ir.Operation) -> bool:
    condition, body = (region.blocks[0] for region in loop.regions)
    read = _arguments_read(condition)
    next_states = operations_in(body)[-1].operands
    return not any(
        argument in read and after != before
        for argument, before, after in zip(
            condition.arguments, body.arguments, next_states, strict=True
        )
    )


def _arguments_read(block: ir.Block) -> set[MlirValue]:
    """The arguments of a block, and other values, that its results depend on."""
    results = list(operations_in(block)[-1].operands)
    return set(results).union(*map(operands_within, leading_to(block, results)))
