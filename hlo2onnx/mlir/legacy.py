"""Custom calls that stand for ops: how programs carry ops that StableHLO itself does not have."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.mlir.walking import operations_of

_CALLS = {
    f"mhlo.{name}": f"chlo.{name}"
    for name in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan")
}
"""Those of XLA's own dialect that StableHLO has no op for, and CHLO has. (`mhlo.topk` also looks
for the smallest, which `chlo.top_k` does not.)"""


def replace_mhlo_calls(module_operation: Any) -> None:
    """Replaces `custom_call @mhlo.erf` and its like, in place, by the ops they stand for."""
    for operation in operations_of(module_operation):
        if operation.name != "stablehlo.custom_call":
            continue
        name = _CALLS.get(operation.attributes["call_target_name"].value)
        if name is None:
            continue
        with ir.InsertionPoint(operation), operation.location:
            types = [result.type for result in operation.results]
            made = ir.Operation.create(name, types, list(operation.operands))
        operation.results[0].replace_all_uses_with(made.results[0])
        operation.erase()
