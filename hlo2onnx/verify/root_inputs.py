"""Which inputs are terms of sums whose roots or logarithms a program takes.

The moments of an optimizer are an example: sqrt(0.999 * moment + 0.001 * gradient * gradient). The
program makes sense if they are not negative.
"""

from __future__ import annotations

from collections.abc import Iterable

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.values import MlirValue, constant_operation, defining_operation

ROOTS = frozenset(f"stablehlo.{name}" for name in ("log", "sqrt", "rsqrt"))
_OF_FIRST = frozenset(
    f"stablehlo.{name}"
    for name in (
        "broadcast_in_dim", "convert", "divide", "dynamic_broadcast_in_dim", "dynamic_reshape",
        "dynamic_slice", "gather", "reduce", "reshape", "reverse", "slice", "transpose",
    )
)  # fmt: skip
"""Ops whose result is not negative if their first operand is not. A divisor is taken to be
positive."""
_OF_ALL = frozenset({"stablehlo.add", "stablehlo.concatenate"})
"""Ops whose result is not negative if no operand is."""


def inputs_of_roots(operations: Iterable[ir.Operation]) -> set[int]:
    """The positions of the arguments of `main` that should not be negative.

    Args:
        operations: The operations of the program, in all functions and regions.
    """
    every = list(operations)
    calls: dict[str, list[ir.Operation]] = {}
    for operation in every:
        if operation.name == "func.call":
            calls.setdefault(str(operation.attributes["callee"]).lstrip("@"), []).append(operation)
    found: set[int] = set()
    seen: set[MlirValue] = set()
    waiting = [item.operands[0] for item in every if item.name in ROOTS]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        maker = defining_operation(value)
        if maker is not None:
            waiting += _terms(maker)
            continue
        argument: ir.BlockArgument[ir.Type] = ir.BlockArgument(value)
        owner = argument.owner.owner.operation
        if owner.name != "func.func":
            continue
        name = ir.StringAttr(owner.attributes["sym_name"]).value
        if name == "main":
            found.add(argument.arg_number)
        waiting += [call.operands[argument.arg_number] for call in calls.get(name, ())]
    return found


def _terms(maker: ir.Operation) -> list[MlirValue]:
    """The operands of an op that should not be negative if its result is not."""
    operands = list(maker.operands)
    if maker.name in _OF_FIRST:
        return operands[:1]
    if maker.name in _OF_ALL:
        return operands
    if maker.name == "stablehlo.select":
        return operands[1:]
    if maker.name == "stablehlo.multiply" and any(map(_is_constant, operands)):
        return operands
    return []


def _is_constant(value: MlirValue) -> bool:
    maker = defining_operation(value)
    if maker is not None and maker.name in _OF_FIRST:
        return _is_constant(maker.operands[0])
    return constant_operation(value) is not None
