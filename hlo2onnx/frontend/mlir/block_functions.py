"""Blocks of a program: ops by path, comparison, and functions that return values from within."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import text_of
from hlo2onnx.frontend.mlir.functions import CALLEES, functions_of
from hlo2onnx.frontend.mlir.types import is_tensor
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    module_of,
    operations_in,
    operations_of,
    values_of,
)
from hlo2onnx.ir.notes import ARGUMENTS, CALLEE, Path

NAME = "hlo2onnx.block"
"""The name of a new function."""


def callee_of(operation: ir.Operation, functions: dict[str, ir.Operation]) -> ir.Operation | None:
    """The function that an operation calls; None if it calls none of the module."""
    name = CALLEES.get(operation.name)
    return None if name is None else functions.get(text_of(operation, name))


def callee_in_module(operation: ir.Operation) -> ir.Operation | None:
    """The function that an operation calls; None if it calls none of its module."""
    if operation.name not in CALLEES:
        return None
    return callee_of(operation, functions_of(module_of(operation)))


def block_at(module: ir.Operation, function: str, path: Path) -> ir.Block:
    """The block at a path that ends with a region, or the body of the function for ()."""
    region = 0
    if not path:
        around: ir.Operation | None = functions_of(module)[function]
    else:
        around, region = operation_at(module, function, path[:-1]), path[-1]
        if region == CALLEE:
            around, region = callee_of(around, functions_of(module)), 0
    assert around is not None
    block: ir.Block = around.regions[region].blocks[0]
    return block


def operation_at(module: ir.Operation, function: str, path: Path) -> ir.Operation:
    """The operation at a path."""
    return operations_in(block_at(module, function, path[:-1]))[path[-1]]


def captured_by(operation: ir.Operation) -> list[MlirValue]:
    """The values from outside that the regions of an operation read, in order."""
    inside = set(values_of(operation))
    read = (value for inner in operations_of(operation)[1:] for value in inner.operands)
    return [value for value in dict.fromkeys(read) if value not in inside]


Values = dict[MlirValue, MlirValue]


@dataclass
class Wanted:
    """The values within a block that a function is to return.

    Attributes:
        results: Paths of ops whose results are wanted.
        operands: Paths of ops whose operands and captured values are wanted.
    """

    results: Collection[Path] = ()
    operands: Collection[Path] = ()

    def prefixes(self) -> set[Path]:
        """The paths of calls that must be inlined."""
        paths = [*self.results, *self.operands]
        return {path[:end] for path in paths for end in range(1, len(path), 2)}


class BlockCopy:
    """Copies blocks into a new function.

    Args:
        functions: The functions of the module.
        wanted: The values to keep.
        inserted: The block of the new function.
    """

    def __init__(self, functions: dict[str, ir.Operation], wanted: Wanted) -> None:
        self._functions = functions
        self._wanted = wanted
        self._inlined = wanted.prefixes()
        self.results: dict[Path, list[MlirValue]] = {}
        self.operands: dict[Path, list[MlirValue]] = {}

    def copy(
        self, block: ir.Block, arguments: Sequence[MlirValue], values: Values, path: Path
    ) -> list[MlirValue]:
        """Copies the ops of a block to the insertion point; returns what it returns.

        Args:
            arguments: New values of the block's arguments.
            values: New values of the values that the block captures. Those of the block are added.
            path: The path of the block.
        """
        values.update(zip(block.arguments, arguments, strict=True))
        for index, operation in enumerate(operations_in(block)):
            here = (*path, index)
            operands = [values.get(operand, operand) for operand in operation.operands]
            if _is_end(block, operation):
                return operands
            if here in self._wanted.operands:
                captured = [values.get(value, value) for value in captured_by(operation)]
                self.operands[here] = [*operands, *captured]
            results = self._copy_one(operation, operands, values, here)
            values.update(zip(operation.results, results, strict=True))
            if here in self._wanted.results:
                self.results[here] = results
        raise AssertionError("a block has no terminator")

    def _copy_one(
        self, operation: ir.Operation, operands: list[MlirValue], values: Values, path: Path
    ) -> list[MlirValue]:
        callee = callee_of(operation, self._functions)
        if path in self._inlined and callee is not None:
            inner = callee.regions[0].blocks[0]
            return self.copy(inner, operands, {}, (*path, CALLEE))
        copy = operation.clone().operation
        _replace_operands(copy, values)
        return list(copy.results)


def _is_end(block: ir.Block, operation: ir.Operation) -> bool:
    return operation == block.operations[len(block.operations) - 1].operation


def _replace_operands(copy: ir.Operation, values: Values) -> None:
    for operation in operations_of(copy):
        for index, operand in enumerate(operation.operands):
            if (new := values.get(operand)) is not None:
                operation.operands[index] = new


Body = Callable[[list[MlirValue]], list[MlirValue]]
"""Makes the ops of a function at the insertion point, from its arguments; returns its results."""


def add_function(
    module: ir.Operation, types: Sequence[ir.Type], body: Body, name: str = NAME
) -> list[ir.Type]:
    """Adds a public function to a module; returns the types of its results."""
    top = module.regions[0].blocks[0]
    with module.context, ir.Location.unknown():
        with ir.InsertionPoint(top):
            function = ir.Operation.create(
                "func.func",
                attributes={
                    "sym_name": ir.StringAttr.get(name),
                    "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
                },
                regions=1,
            )
        block = function.regions[0].blocks.append(
            *types, arg_locs=[ir.Location.unknown() for _ in types]
        )
        with ir.InsertionPoint(block):
            results = body(list(block.arguments))
            ir.Operation.create("func.return", operands=results)
        found = [value.type for value in results]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, found))
    return found


def positions(
    made: dict[Path, list[MlirValue]], returned: list[MlirValue]
) -> dict[Path, list[int | None]]:
    """Appends values to those that a function returns; returns their positions."""
    known = {value: place for place, value in enumerate(returned)}
    found: dict[Path, list[int | None]] = {}
    for path, values in made.items():
        places: list[int | None] = []
        for value in values:
            if not is_tensor(value.type):
                places.append(None)
                continue
            if value not in known:
                known[value] = len(returned)
                returned.append(value)
            places.append(known[value])
        found[path] = places
    return found


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


def same_regions(left: ir.Operation, right: ir.Operation) -> bool:
    """Whether the regions of two operations compute the same from their arguments, op by op.

    Constants may stand outside of the regions. Calls are compared by the bodies of the functions.
    Locations, names of functions, and attributes of other dialects do not matter.
    """
    return _Comparison().regions(left, right)


class _Comparison:
    def __init__(self) -> None:
        self._same: dict[Any, Any] = {}

    def regions(self, left: ir.Operation, right: ir.Operation) -> bool:
        if len(left.regions) != len(right.regions):
            return False
        for one, other in zip(left.regions, right.regions, strict=True):
            if len(one.blocks) != 1 or len(other.blocks) != 1:
                return False
            if not self._blocks(one.blocks[0], other.blocks[0]):
                return False
        return True

    def _blocks(self, left: ir.Block, right: ir.Block) -> bool:
        if len(left.arguments) != len(right.arguments):
            return False
        for one, other in zip(left.arguments, right.arguments, strict=True):
            if str(one.type) != str(other.type):
                return False
            self._same[one] = other
        ends = [list(block.operations)[-1].operation for block in (left, right)]
        return self._operations(*ends)

    def _values(self, left: MlirValue, right: MlirValue) -> bool:
        if left in self._same:
            return bool(self._same[left] == right)
        makers = left.owner, right.owner
        if isinstance(makers[0], ir.Block) or isinstance(makers[1], ir.Block):
            return False
        number, other = (ir.OpResult(value).result_number for value in (left, right))
        if number != other or not self._operations(makers[0].operation, makers[1].operation):
            return False
        self._same[left] = right
        return True

    def _operations(self, left: ir.Operation, right: ir.Operation) -> bool:
        if left.name != right.name or _attributes(left) != _attributes(right):
            return False
        if [str(x.type) for x in left.results] != [str(x.type) for x in right.results]:
            return False
        if len(left.operands) != len(right.operands):
            return False
        pairs = zip(left.operands, right.operands, strict=True)
        if not all(self._values(*pair) for pair in pairs) or not self.regions(left, right):
            return False
        callees = callee_in_module(left), callee_in_module(right)
        if callees[0] is None or callees[1] is None:
            return callees[0] is callees[1]
        return self.regions(callees[0], callees[1])


def _attributes(operation: ir.Operation) -> dict[str, str]:
    """The attributes of the operation's own dialect, as text, without the name of a callee."""
    found = {}
    for attribute in operation.attributes:
        name = attribute if isinstance(attribute, str) else attribute.name
        if "." not in name and name != CALLEES.get(operation.name):
            found[name] = str(operation.attributes[name])
    return found
