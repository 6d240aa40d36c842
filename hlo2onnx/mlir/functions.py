"""The functions of a module, `func.func`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.mlir.attributes import text_of, to_python
from hlo2onnx.mlir.walk import operations_in


def functions_of(module_operation: ir.Operation) -> dict[str, ir.Operation]:
    """The functions of a module by symbol."""
    return {
        text_of(operation, "sym_name"): operation
        for operation in operations_in(module_operation.regions[0].blocks[0])
        if operation.name == "func.func"
    }


def enclosing_function(operation: ir.Operation) -> str:
    """The symbol of the function around an operation."""
    while operation.name != "func.func":
        assert operation.parent is not None
        operation = operation.parent.operation
    return text_of(operation, "sym_name")


def function_type(function: ir.Operation) -> ir.FunctionType:
    """The types of a function's arguments and results."""
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def set_function_type(
    function: ir.Operation, inputs: Sequence[ir.Type], results: Sequence[ir.Type]
) -> None:
    """Changes the types in a function's attribute. Its block must have the same types."""
    with function.context:
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))


def argument_attributes(function: ir.Operation) -> list[dict[str, Any]]:
    """The attributes of each argument, as Python values."""
    if "arg_attrs" not in function.attributes:
        return [{} for _ in function.regions[0].blocks[0].arguments]
    return list(to_python(function.attributes["arg_attrs"]))
