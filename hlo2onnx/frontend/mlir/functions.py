"""The functions of a module, `func.func`: types, size after inlining, constants as arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import text_of, to_python
from hlo2onnx.frontend.mlir.constants import Constants, Splat, constant_bytes
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    dense,
    operations_in,
    operations_of,
    replace_by_block,
    return_from,
    returned_by,
)


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


INLINED_OPS = 1_000_000
"""How many ops a program may have after inlining. A program that has more before may double them.
Translating this many takes some ten minutes. A chain of functions that call the next one twice gets
there in twenty levels."""

CALLEES = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""The attribute with the function that an op calls, by the name of the op."""


def too_many_ops(
    functions: Mapping[str, ir.Operation],
    root: str,
    is_kept: Callable[[str], bool] = lambda _: False,
) -> str:
    """Why a program should not be inlined: its count of ops; "" if it may be.

    Recursive calls do not count.

    Args:
        functions: The functions of a module by symbol.
        root: The function to start with.
        is_kept: Whether calls of a function stay calls.
    """
    own: dict[str, int] = {}
    whole: dict[str, int] = {}
    kept = [root]

    def ops(symbol: str) -> int:
        """The ops of a function, with those of the functions that are inlined in it."""
        if symbol not in whole:
            whole[symbol] = 0
            operations = operations_of(functions[symbol])
            own[symbol] = found = len(operations)
            calls = [text_of(op, CALLEES[op.name]) for op in operations if op.name in CALLEES]
            for callee, count in Counter(calls).items():
                if is_kept(callee):
                    kept.append(callee)
                elif callee in functions:
                    found += count * ops(callee)
            whole[symbol] = found
        return whole[symbol]

    total = 0
    while kept:
        symbol = kept.pop()
        total += ops(symbol) if symbol in functions and symbol not in whole else 0
    if total <= max(INLINED_OPS, 2 * sum(own.values())):
        return ""
    return f"with all calls inlined it has {total:,} ops; the limit is {INLINED_OPS:,}"


_DEPTH = 16
"""Calls in functions that are called are inlined up to this depth."""


def inline_calls(module_operation: ir.Operation, function: ir.Operation) -> None:
    """Replaces the calls and composites in a function by the bodies of their functions."""
    functions = functions_of(module_operation)
    for _ in range(_DEPTH):
        for call in [each for each in operations_of(function) if each.name in CALLEES]:
            callee = functions[text_of(call, CALLEES[call.name])]
            with call.context, ir.InsertionPoint(callee):
                copy = callee.clone().operation
            replace_by_block(call, copy.regions[0].blocks[0], list(call.operands))
            copy.erase()


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
        return_values(function, returned_by(block))
    return arrays


def _is_large(operation: ir.Operation) -> bool:
    return operation.name == "stablehlo.constant" and constant_bytes(operation) >= LARGE_BYTES


def return_values(function: ir.Operation, values: Sequence[MlirValue]) -> None:
    """Makes a function return these values, in place, and gives it the type of its block.

    Attributes of arguments or results are removed where their count has changed.
    """
    (block,) = function.regions[0].blocks
    return_from(block, values)
    old = function_type(function)
    new = block.arguments.types, [value.type for value in values]
    set_function_type(function, *new)
    for name, types in (("arg_attrs", old.inputs), ("res_attrs", old.results)):
        if name in function.attributes and len(types) != len(new[name == "res_attrs"]):
            del function.attributes[name]
