"""Opens a program at some of its operations.

Readers of their results read new arguments of `main` instead, and `main` also returns their
operands and results. Operations in regions, such as loops, can run many times. Their results are
replaced in place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import text_of
from hlo2onnx.frontend.mlir.functions import function_type, functions_of, return_values
from hlo2onnx.frontend.mlir.values import MlirValue, operations_in, operations_of, returned_by

Tag = TypeVar("Tag")


@dataclass(frozen=True)
class Opening(Generic[Tag]):
    """One open operation.

    Attributes:
        tag: The result of `tag_of` for it.
        operation: The operation in the module.
    """

    tag: Tag
    operation: ir.Operation


class Opener(Generic[Tag]):
    """Opens the operations of a module, in place.

    Args:
        module: The module operation.
        tag_of: Describes the operations to open; None for others.
        replacement: For an operation in a region, with its tag: the text of a module whose `main`
            takes operands and results of the operation, and returns results to use instead.

    Attributes:
        openings: The open operations in order.
        has_closed: Whether operations in regions were replaced.
    """

    def __init__(
        self,
        module: ir.Operation,
        tag_of: Callable[[ir.Operation], Tag | None],
        replacement: Callable[[Tag, ir.Operation], str],
    ) -> None:
        self._module = module
        self._tag_of = tag_of
        self._replacement = replacement
        self._names: dict[str, str] = {}
        self._opened: list[ir.Operation] = []
        self._count = 0
        with module.context, ir.Location.unknown():
            self.openings = self._open(functions_of(module)["main"])
            self.has_closed = self._replace_closed()

    # -- operations that run once -----------------------------------------------------------------

    def _open(self, function: ir.Operation) -> list[Opening[Tag]]:
        """Opens a function.

        Its last arguments become the results of the operations, its last results their operands
        and results.
        """
        (block,) = function.regions[0].blocks
        openings: list[Opening[Tag]] = []
        returned: list[MlirValue] = []
        for operation in operations_in(block):
            tag = self._tag_of(operation)
            if tag is not None:
                opening, values = self._open_one(block, operation, tag)
                openings.append(opening)
                returned += values
            elif operation.name == "func.call" and self._holds_any(operation):
                inner, values = self._open_callee(block, operation)
                openings += inner
                returned += values
        return_values(function, [*returned_by(block), *returned])
        return openings

    def _open_one(
        self, block: ir.Block, operation: ir.Operation, tag: Tag
    ) -> tuple[Opening[Tag], list[MlirValue]]:
        with ir.InsertionPoint(operation):
            copy = operation.clone().operation
            self._opened.append(copy)
        for result in operation.results:
            result.replace_all_uses_with(block.add_argument(result.type, operation.location))
        operation.erase()
        return Opening(tag, copy), [*copy.operands, *copy.results]

    def _open_callee(
        self, block: ir.Block, call: ir.Operation
    ) -> tuple[list[Opening[Tag]], list[MlirValue]]:
        """Opens a copy of the called function, which only this call calls."""
        callee = functions_of(self._module)[text_of(call, "callee")]
        self._count += 1
        name = f"{text_of(call, 'callee')}.open{self._count}"
        with ir.InsertionPoint(callee):
            copy = callee.clone().operation
        copy.attributes["sym_name"] = ir.StringAttr.get(name)
        copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
        before = len(call.operands)
        openings = self._open(copy)
        of_callee = function_type(copy)
        new = [block.add_argument(kind, call.location) for kind in of_callee.inputs[before:]]
        with ir.InsertionPoint(call):
            made = ir.Operation.create(
                "func.call",
                of_callee.results,
                [*call.operands, *new],
                {"callee": ir.FlatSymbolRefAttr.get(name)},
            )
        results: list[MlirValue] = [*made.results]
        for old in call.results:
            old.replace_all_uses_with(results.pop(0))
        call.erase()
        return openings, results

    def _holds_any(self, call: ir.Operation) -> bool:
        """Whether the called function has operations to open, or calls one that has."""
        (block,) = functions_of(self._module)[text_of(call, "callee")].regions[0].blocks
        return any(
            self._tag_of(item) is not None or (item.name == "func.call" and self._holds_any(item))
            for item in operations_in(block)
        )

    # -- operations in regions --------------------------------------------------------------------

    def _replace_closed(self) -> bool:
        closed = [
            (operation, tag)
            for operation in operations_of(self._module)
            if (tag := self._tag_of(operation)) is not None and operation not in self._opened
        ]
        for operation, tag in closed:
            with ir.InsertionPoint(operation):
                copy = operation.clone().operation
                replaced = self._call_replacement(tag, copy)
            for result, value in zip(operation.results, replaced, strict=True):
                result.replace_all_uses_with(value)
            operation.erase()
        return bool(closed)

    def _call_replacement(self, tag: Tag, operation: ir.Operation) -> list[MlirValue]:
        operands = [*operation.operands, *operation.results]
        types = [result.type for result in operation.results]
        text = self._replacement(tag, operation)
        if text not in self._names:
            self._names[text] = self._added(text)
        callee: dict[str, ir.Attribute] = {"callee": ir.FlatSymbolRefAttr.get(self._names[text])}
        return list(ir.Operation.create("func.call", types, operands, callee).results)

    def _added(self, text: str) -> str:
        """Adds the functions of a module. Returns the name of its `main`."""
        prefix = f"choice{len(self._names)}"
        text = _SYMBOL.sub(lambda match: f"{match[1]}@{prefix}.{match[2]}", text)
        module = ir.Module.parse(text, self._module.context)
        with ir.InsertionPoint.at_block_begin(self._module.regions[0].blocks[0]):
            for item in operations_in(module.body):
                copy = item.clone().operation
                copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
        return f"{prefix}.main"


_SYMBOL = re.compile(r"(call |func\.func public |func\.func private )@([\w.]+)")
