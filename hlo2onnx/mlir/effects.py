"""Calls for the sake of an effect: prints, callbacks, assertions."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.types import is_token


def drop_effects(module_operation: Any) -> list[str]:
    """Removes, in place, custom calls that hand back no data that anything reads: nothing that a
    program computes depends on them. Returns the targets they call, each once.

    `jax.debug.print`, and callbacks that return nothing, are lowered to such calls. XLA crashes on
    those of another process, or of another executable of this one.
    """
    calls: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call" and not any(map(_is_read, operation.results)):
            calls.append(operation)
        return ir.WalkResult.ADVANCE

    module_operation.walk(visit)
    targets = [str(to_python(call.attributes["call_target_name"])) for call in calls]
    for call in calls:
        for token in filter(_has_uses, call.results):
            token.replace_all_uses_with(_earlier_token(call, token.type))
        call.erase()
    return list(dict.fromkeys(targets))


def _is_read(result: Any) -> bool:
    return _has_uses(result) and not is_token(result.type)


def _has_uses(result: Any) -> bool:
    return any(True for _ in result.uses)


def _earlier_token(call: Any, token: Any) -> Any:
    tokens = [operand for operand in call.operands if is_token(operand.type)]
    if tokens:
        return tokens[0]
    with call.context, call.location, ir.InsertionPoint(call):
        return ir.Operation.create("stablehlo.after_all", results=[token]).results[0]
