"""Follows values of a program backwards, by the paths of ops."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from jaxlib.mlir import ir

from hlo2onnx.ir.provenance import ARGUMENTS, CALLEE, Path
from hlo2onnx.mlir.block_functions import block_at, callee_of
from hlo2onnx.mlir.functions import functions_of
from hlo2onnx.mlir.walk import MlirValue, operations_in


@dataclass(frozen=True)
class Place:
    """A value by its place.

    Attributes:
        path: The op that makes it, or the block whose argument it is.
        number: Its number among the results or arguments.
    """

    path: Path
    number: int


class BlockPaths:
    """The ops of one function of a module by path. The module must not change."""

    def __init__(self, module: ir.Operation, function: str) -> None:
        self._module = module
        self._function = function
        self._functions = functions_of(module)
        self._blocks: dict[Path, tuple[list[ir.Operation], dict[ir.Operation, int]]] = {}

    def operation(self, path: Path) -> ir.Operation:
        """The op at a path."""
        return self._block(path[:-1])[0][path[-1]]

    def calls_around(self, path: Path) -> list[ir.Operation]:
        """The calls that lead to an op, the innermost first."""
        ends = [end for end in range(1, len(path), 2) if path[end] == CALLEE]
        return [self.operation(path[:end]) for end in reversed(ends)]

    def operands(self, path: Path, opened: Collection[Path] = ()) -> list[Place | None]:
        """The places of the operands of an op; None for values from outside of its block.

        Args:
            opened: Paths of calls. The result of such a call is a value in the called function.
        """
        return [
            self._place(path[:-1], operand, opened) for operand in self.operation(path).operands
        ]

    def returned(self, block: Path, opened: Collection[Path] = ()) -> list[Place | None]:
        """The places of the values that a block returns."""
        operations = self._block(block)[0]
        return [self._place(block, operand, opened) for operand in operations[-1].operands]

    def between(self, path: Path, known: Collection[Path], opened: Collection[Path]) -> list[Path]:
        """The op at a path, and the ops between it and those at known paths, in order."""
        found, pending = {path}, [path]
        while pending:
            for place in self.operands(pending.pop(), opened):
                if place is None or place.path[-1] == ARGUMENTS or place.path in known:
                    continue
                if place.path not in found:
                    found.add(place.path)
                    pending.append(place.path)
        return sorted(found)

    def _place(self, block: Path, value: MlirValue, opened: Collection[Path]) -> Place | None:
        owner = value.owner
        if isinstance(owner, ir.Block):
            if not block or block[-1] != CALLEE:
                argument = ir.BlockArgument(value)  # type: ignore[var-annotated]
                is_own = owner == block_at(self._module, self._function, block)
                return Place((*block, ARGUMENTS), argument.arg_number) if is_own else None
            operand = self.operation(block[:-1]).operands[ir.BlockArgument(value).arg_number]
            return self._place(block[:-2], operand, opened)
        index = self._block(block)[1].get(owner.operation)
        if index is None:
            return None
        path, result = (*block, index), ir.OpResult(value).result_number
        if path in opened and callee_of(owner.operation, self._functions) is not None:
            inner = (*path, CALLEE)
            return self._place(inner, self._block(inner)[0][-1].operands[result], opened)
        return Place(path, result)

    def _block(self, path: Path) -> tuple[list[ir.Operation], dict[ir.Operation, int]]:
        if path not in self._blocks:
            operations = operations_in(block_at(self._module, self._function, path))
            numbers = {operation: index for index, operation in enumerate(operations)}
            self._blocks[path] = operations, numbers
        return self._blocks[path]
