"""Fixes arguments of a function that the user does not pass."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.mlir.functions import function_type, set_function_type
from hlo2onnx.mlir.values import dense


def specialize(function: ir.Operation, values: Mapping[int, np.ndarray]) -> None:
    """Replaces arguments of a `func.func` by constants in place.

    Args:
        values: Contents of the constants, by position of the argument.
    """
    block = function.regions[0].blocks[0]
    kept = [index for index in range(len(block.arguments)) if index not in values]
    with function.context, ir.Location.unknown():
        for index, value in values.items():
            argument = block.arguments[index]
            with ir.InsertionPoint.at_block_begin(block):
                constant = ir.Operation.create(
                    "stablehlo.constant",
                    results=[argument.type],
                    attributes={"value": dense(value, argument.type)},
                )
            argument.replace_all_uses_with(constant.results[0])
        for index in sorted(values, reverse=True):
            block.erase_argument(index)
        old = function_type(function)
        set_function_type(function, [old.inputs[index] for index in kept], old.results)
        if "arg_attrs" in function.attributes:
            attributes = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
            function.attributes["arg_attrs"] = ir.ArrayAttr.get([attributes[i] for i in kept])


def make_main(module_operation: ir.Operation, symbol: str) -> None:
    """Makes a function the public @main of its module, in place. Renames another @main.

    XLA runs @main only. Nothing may call either of the two.
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


def _set_visibility(function: ir.OpView, visibility: str) -> None:
    function.operation.attributes["sym_visibility"] = ir.StringAttr.get(visibility)
