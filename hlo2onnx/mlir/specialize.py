"""Fixing arguments of a function: the ones JAX adds and the user never passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.types import shape_of


def argument_attributes(function: Any) -> list[dict[str, Any]]:
    """The attributes of each argument of a `func.func`."""
    if "arg_attrs" not in function.attributes:
        return [{} for _ in function.regions[0].blocks[0].arguments]
    return list(to_python(function.attributes["arg_attrs"]))


def specialize(function: Any, values: Mapping[int, np.ndarray]) -> None:
    """Replaces arguments of a `func.func`, by position, by constants; in place."""
    block = function.regions[0].blocks[0]
    kept = [index for index in range(len(block.arguments)) if index not in values]
    with function.context, ir.Location.unknown():
        for index, value in values.items():
            argument = block.arguments[index]
            with ir.InsertionPoint.at_block_begin(block):
                constant = ir.Operation.create(
                    "stablehlo.constant",
                    results=[argument.type],
                    attributes={"value": _dense(value, argument.type)},
                )
            argument.replace_all_uses_with(constant.results[0])
        for index in sorted(values, reverse=True):
            block.erase_argument(index)
        function_type = function.attributes["function_type"].value
        inputs = [function_type.inputs[index] for index in kept]
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(inputs, function_type.results)
        )
        if "arg_attrs" in function.attributes:
            attributes = list(function.attributes["arg_attrs"])
            function.attributes["arg_attrs"] = ir.ArrayAttr.get([attributes[i] for i in kept])


def make_main(module_operation: Any, symbol: str) -> None:
    """Makes a function of a module its public @main, in place; another @main is renamed.

    XLA runs no other function. Nothing may call either of the two.
    """
    if symbol == "main":
        return
    table = ir.SymbolTable(module_operation)
    with module_operation.context:
        if "main" in table:
            ir.SymbolTable.set_symbol_name(table["main"], f"{symbol}.main")
            _set_visibility(table["main"], "private")
        ir.SymbolTable.set_symbol_name(table[symbol], "main")
        _set_visibility(table[symbol], "public")


def _set_visibility(function: Any, visibility: str) -> None:
    """For functions as well that say nothing of it, and so are public."""
    function.operation.attributes["sym_visibility"] = ir.StringAttr.get(visibility)


def _dense(value: np.ndarray, mlir_type: Any) -> Any:
    element = ir.RankedTensorType(mlir_type).element_type
    # The bindings know no numpy type of ml_dtypes; they take its bits where told the type.
    if value.dtype.kind == "V":
        value = value.view(f"u{value.dtype.itemsize}")
    shape = [dim or 0 for dim in shape_of(mlir_type)]
    return ir.DenseElementsAttr.get(np.ascontiguousarray(value), type=element, shape=shape)
