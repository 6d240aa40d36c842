"""Calls with effects: prints, callbacks, assertions."""

from __future__ import annotations

import re

from jaxlib.mlir import ir

from hlo2onnx.mlir.attributes import text_of
from hlo2onnx.mlir.types import is_token
from hlo2onnx.mlir.walk import MlirValue, is_used, operations_of

ASSERTION = "shape_assertion"
_OF_DIMENSIONS = "Input shapes do not match the polymorphic shapes specification."
"""The beginning of JAX's errors for a dimension that is 0, or 2*b that is odd."""
_CONSTRAINT = re.compile(r"symbolic shape constraint (.*?)\. Expected")


def assertions(module_operation: ir.Operation) -> list[str]:
    """The assertions of a program: constraints such as "b >= 8", and messages of other producers.

    Assertions that the dimensions of inputs fit their names are left out.
    """
    found = []
    for operation in operations_of(module_operation):
        is_call = operation.name == "stablehlo.custom_call"
        if not is_call or "error_message" not in operation.attributes:
            continue
        if text_of(operation, "call_target_name") != ASSERTION:
            continue
        text = text_of(operation, "error_message")
        constraint = _CONSTRAINT.search(text)
        if constraint is not None:
            found.append(constraint[1])
        elif not text.startswith(_OF_DIMENSIONS):
            found.append(text)
    return found


def drop_effects(module_operation: ir.Operation) -> list[str]:
    """Removes, in place, custom calls whose data nothing reads. Returns their targets, each once.

    JAX lowers `jax.debug.print`, and callbacks that return nothing, to such calls. XLA crashes on
    callbacks of another process, or of another executable of this process.
    """
    targets = []
    calls = [op for op in operations_of(module_operation) if op.name == "stablehlo.custom_call"]
    # From the end: a call that only dropped calls read is dropped, too.
    for call in reversed(calls):
        if any(map(is_read, call.results)):
            continue
        targets.append(text_of(call, "call_target_name"))
        for token in filter(is_used, call.results):
            token.replace_all_uses_with(_earlier_token(call, token.type))
        call.erase()
    return list(dict.fromkeys(reversed(targets)))


def is_read(result: MlirValue) -> bool:
    """Whether an operation reads the data of a result."""
    return is_used(result) and not is_token(result.type)


def _earlier_token(call: ir.Operation, token: ir.Type) -> MlirValue:
    tokens = [operand for operand in call.operands if is_token(operand.type)]
    if tokens:
        return tokens[0]
    with call.context, call.location, ir.InsertionPoint(call):
        return ir.Operation.create("stablehlo.after_all", results=[token]).result
