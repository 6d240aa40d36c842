"""Turns arguments that the user does not pass into constants, and constants into arguments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.constants import Constants, Splat, constant_bytes
from hlo2onnx.frontend.mlir.functions import function_type, set_function_type
from hlo2onnx.frontend.mlir.values import dense, operations_in


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


LARGE_BYTES = 1 << 20
"""Constants of at least this size become arguments. XLA copies constants several times."""


def large_constants_as_arguments(function: ir.Operation) -> list[np.ndarray]:
    """Replaces the large constants in a function's block by new last arguments, in place.

    Returns:
        Their contents, in memory that the module's context keeps.
    """
    block = function.regions[0].blocks[0]
    constants = Constants()
    arrays: list[np.ndarray] = []
    for operation in filter(_is_large, operations_in(block)):
        content = constants.read(operation)
        if isinstance(content, Splat):
            continue
        (result,) = operation.results
        result.replace_all_uses_with(block.add_argument(result.type, operation.location))
        operation.erase()
        arrays.append(content)
    if arrays:
        _retype(function, len(arrays))
    return arrays


def _is_large(operation: ir.Operation) -> bool:
    return operation.name == "stablehlo.constant" and constant_bytes(operation) >= LARGE_BYTES


def _retype(function: ir.Operation, added: int) -> None:
    """Gives a function the type of its block, whose last arguments are new."""
    types = function.regions[0].blocks[0].arguments.types
    set_function_type(function, types, function_type(function).results)
    if "arg_attrs" in function.attributes:
        with function.context:
            old = ir.ArrayAttr(function.attributes["arg_attrs"])
            attributes = [*old, *[ir.DictAttr.get({})] * added]
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
