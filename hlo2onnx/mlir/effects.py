"""Calls for the sake of an effect: prints, callbacks, assertions."""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.types import is_token
from hlo2onnx.mlir.walk import operations_of

ASSERTION = "shape_assertion"
_OF_DIMENSIONS = "Input shapes do not match the polymorphic shapes specification."
"""How JAX begins what says that a dimension is 0, or 2*b odd."""
_CONSTRAINT = re.compile(r"symbolic shape constraint (.*?)\. Expected")


def assertions(module_operation: Any) -> list[str]:
    """What a program asserts about its inputs, other than that their dimensions are what their
    names say: constraints such as "b >= 8", and what other producers tell the user."""
    messages = []
    for operation in operations_of(module_operation):
        attributes = operation.attributes
        if operation.name != "stablehlo.custom_call" or "error_message" not in attributes:
            continue
        if to_python(attributes["call_target_name"]) == ASSERTION:
            messages.append(str(to_python(attributes["error_message"])))
    found = []
    for text in messages:
        constraint = _CONSTRAINT.search(text)
        if constraint is not None:
            found.append(constraint[1])
        elif not text.startswith(_OF_DIMENSIONS):
            found.append(text)
    return found


def drop_effects(module_operation: Any) -> list[str]:
    """Removes, in place, custom calls that hand back no data that anything reads: nothing that a
    program computes depends on them. Returns the targets they call, each once.

    `jax.debug.print`, and callbacks that return nothing, are lowered to such calls. XLA crashes on
    those of another process, or of another executable of this one.
    """
    targets = []
    calls = [op for op in operations_of(module_operation) if op.name == "stablehlo.custom_call"]
    # From the end, since what only dropped calls read is dropped as well.
    for call in reversed(calls):
        if any(map(is_read, call.results)):
            continue
        targets.append(str(to_python(call.attributes["call_target_name"])))
        for token in filter(_has_uses, call.results):
            token.replace_all_uses_with(_earlier_token(call, token.type))
        call.erase()
    return list(dict.fromkeys(reversed(targets)))


def is_read(result: Any) -> bool:
    """Whether an operation reads a result, other than as a token."""
    return _has_uses(result) and not is_token(result.type)


def _has_uses(result: Any) -> bool:
    return any(True for _ in result.uses)


def _earlier_token(call: Any, token: Any) -> Any:
    tokens = [operand for operand in call.operands if is_token(operand.type)]
    if tokens:
        return tokens[0]
    with call.context, call.location, ir.InsertionPoint(call):
        return ir.Operation.create("stablehlo.after_all", results=[token]).results[0]
