"""Values of a module made arguments and results of its main function.

A program is opened at some of its operations: what reads their results reads new arguments
instead, and their operands and results are returned besides. Operations in regions, of loops for
example, may happen many times and have no such arguments: their results are replaced in place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.mlir.normalize import functions_of
from hlo2onnx.mlir.walk import operations_of

Tag = Callable[[Any], Any]
"""What an operation is opened as; None where it stays closed."""


@dataclass(frozen=True)
class Opening:
    """One operation that was opened.

    Attributes:
        tag: What the given function said of it.
        operation: It, in the module.
    """

    tag: Any
    operation: Any


class Opener:
    """Opens the operations of a module, in place.

    Args:
        module: The module operation; its `main` becomes the open function.
        tag_of: Which operations to open, and what they are.
        replacement: For operations in regions, of this tag: the text of a module whose `main` takes
            operands and results of the operation, and gives results in their place.

    Attributes:
        openings: The operations that are open, in order.
        has_closed: Whether there are others.
    """

    def __init__(self, module: Any, tag_of: Tag, replacement: Callable[[Any, Any], str]) -> None:
        self._module = module
        self._tag_of = tag_of
        self._replacement = replacement
        self._names: dict[str, str] = {}
        self._opened: list[Any] = []
        self._count = 0
        with module.context, ir.Location.unknown():
            self.openings = self._open(functions_of(module)["main"])
            self.has_closed = self._replace_closed()

    # -- operations that happen once --------------------------------------------------------------

    def _open(self, function: Any) -> list[Opening]:
        """Opens a function: it takes the results of each operation as arguments after its own, and
        returns operands and results of the operation after its own."""
        (block,) = function.regions[0].blocks
        openings: list[Opening] = []
        returned: list[Any] = []
        for operation in [item.operation for item in block.operations]:
            tag = self._tag_of(operation)
            if tag is not None:
                opening, values = self._open_one(block, operation, tag)
                openings.append(opening)
                returned += values
            elif operation.name == "func.call" and self._holds_any(operation):
                inner, values = self._open_callee(block, operation)
                openings += inner
                returned += values
        _return_also(function, returned)
        return openings

    def _open_one(self, block: Any, operation: Any, tag: Any) -> tuple[Opening, list[Any]]:
        with ir.InsertionPoint(operation):
            copy = operation.clone().operation
            self._opened.append(copy)
        for result in operation.results:
            result.replace_all_uses_with(block.add_argument(result.type, operation.location))
        operation.erase()
        return Opening(tag, copy), [*copy.operands, *copy.results]

    def _open_callee(self, block: Any, call: Any) -> tuple[list[Opening], list[Any]]:
        """Every call gets a function of its own."""
        callee = functions_of(self._module)[call.attributes["callee"].value]
        self._count += 1
        name = f"{call.attributes['callee'].value}.open{self._count}"
        with ir.InsertionPoint(callee):
            copy = callee.clone().operation
        copy.attributes["sym_name"] = ir.StringAttr.get(name)
        copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
        before = len(call.operands)
        openings = self._open(copy)
        of_callee = copy.attributes["function_type"].value
        new = [block.add_argument(kind, call.location) for kind in of_callee.inputs[before:]]
        with ir.InsertionPoint(call):
            made = ir.Operation.create(
                "func.call",
                list(of_callee.results),
                [*call.operands, *new],
                {"callee": ir.FlatSymbolRefAttr.get(name)},
            )
        own = len(call.results)
        for old, value in zip(call.results, list(made.results)[:own], strict=True):
            old.replace_all_uses_with(value)
        call.erase()
        return openings, list(made.results)[own:]

    def _holds_any(self, call: Any) -> bool:
        """Whether the called function has operations to open, or calls one that has."""
        callee = functions_of(self._module)[call.attributes["callee"].value]
        (block,) = callee.regions[0].blocks
        operations = [item.operation for item in block.operations]
        return any(
            self._tag_of(item) is not None or (item.name == "func.call" and self._holds_any(item))
            for item in operations
        )

    # -- operations in regions --------------------------------------------------------------------

    def _replace_closed(self) -> bool:
        closed = [
            (operation, tag)
            for operation in operations_of(self._module)
            if (tag := self._tag_of(operation)) is not None
            and not any(operation == opened for opened in self._opened)
        ]
        for operation, tag in closed:
            with ir.InsertionPoint(operation):
                copy = operation.clone().operation
                replaced = self._call_replacement(tag, copy)
            for result, value in zip(operation.results, replaced, strict=True):
                result.replace_all_uses_with(value)
            operation.erase()
        return bool(closed)

    def _call_replacement(self, tag: Any, operation: Any) -> list[Any]:
        operands = [*operation.operands, *operation.results]
        types = [result.type for result in operation.results]
        text = self._replacement(tag, operation)
        if text not in self._names:
            self._names[text] = self._added(text)
        callee: dict[str, ir.Attribute] = {"callee": ir.FlatSymbolRefAttr.get(self._names[text])}
        return list(ir.Operation.create("func.call", types, operands, callee).results)

    def _added(self, text: str) -> str:
        """Adds the functions of a module; returns the name of its main."""
        prefix = f"choice{len(self._names)}"
        text = _SYMBOL.sub(lambda match: f"{match[1]}@{prefix}.{match[2]}", text)
        module = ir.Module.parse(text, self._module.context)
        with ir.InsertionPoint.at_block_begin(self._module.regions[0].blocks[0]):
            for item in module.body.operations:
                copy = item.operation.clone().operation
                copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
        return f"{prefix}.main"


_SYMBOL = re.compile(r"(call |func\.func public |func\.func private )@([\w.]+)")


def _return_also(function: Any, values: list[Any]) -> None:
    """Makes the type of a function that of its block, and returns values after what it returns."""
    (block,) = function.regions[0].blocks
    end = [operation.operation for operation in block.operations][-1]
    operands = [*end.operands, *values]
    with ir.InsertionPoint(end):
        ir.Operation.create(end.name, operands=operands)
    end.erase()
    inputs = [argument.type for argument in block.arguments]
    results = [value.type for value in operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    for name in ("arg_attrs", "res_attrs"):
        if name in function.attributes:
            del function.attributes[name]
