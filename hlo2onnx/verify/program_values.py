"""Values within a program, as XLA computes them on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.block_functions import (
    NAME,
    BlockCopy,
    Wanted,
    add_function,
    block_at,
    captured_by,
    operation_at,
    positions,
)
from hlo2onnx.frontend.mlir.context import clone_module
from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.frontend.mlir.types import element_type, is_tensor
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.frontend.signature import Port, Signature
from hlo2onnx.frontend.source import Source
from hlo2onnx.ir.notes import Path
from hlo2onnx.verify.reference import Reference

Arrays: TypeAlias = list[np.ndarray | None]
"""None for a token."""


@dataclass
class BlockValues:
    """The values of one run of a block.

    Attributes:
        arguments: Of the block.
        results: Results of ops, by path.
        operands: Operands and captured values of ops, by path.
        returned: What the block returns.
        trip: The number of the trip, if it is the body of a loop.
    """

    arguments: Arrays
    results: dict[Path, Arrays] = field(default_factory=dict)
    operands: dict[Path, Arrays] = field(default_factory=dict)
    returned: Sequence[np.ndarray] = ()
    trip: int | None = None


class ProgramValues:
    """Runs blocks of a program in XLA.

    Args:
        source: The program.
        module: Its normalized module, which the paths are for.
    """

    def __init__(self, source: Source, module: ir.Operation) -> None:
        self._source = source
        self.module = module

    def main(self, arrays: Sequence[np.ndarray], wanted: Wanted) -> BlockValues:
        """The values of the whole program."""
        types = list(block_at(self.module, self._source.function, ()).arguments.types)

        def make(
            module: ir.Operation, copies: BlockCopy, arguments: list[MlirValue]
        ) -> list[MlirValue]:
            block = block_at(module, self._source.function, ())
            return copies.copy(block, arguments, {}, ())

        program = _Compiled(self._source, self.module, types, make, wanted, is_main=True)
        return program(arrays, self._arguments(arrays))

    def _arguments(self, arrays: Sequence[np.ndarray]) -> Arrays:
        block = block_at(self.module, self._source.function, ())
        arguments: Arrays = [None] * len(block.arguments)
        for port, array in zip(self._source.signature.inputs, arrays, strict=True):
            arguments[port.position] = array
        for item in self._source.signature.bound:
            arguments[item.port.position] = item.array
        return arguments

    def branch(
        self, path: Path, region: int, operands: Arrays, wanted: Wanted
    ) -> Iterator[BlockValues]:
        """The values of a branch.

        Args:
            operands: The operands of the op, and the values that it captures.
        """
        operation = self._at(path)
        captured = captured_by(operation)
        types = [value.type for value in captured]

        def make(
            module: ir.Operation, copies: BlockCopy, arguments: list[MlirValue]
        ) -> list[MlirValue]:
            here = self._at(path, module)
            values = dict(zip(captured_by(here), arguments, strict=True))
            return copies.copy(here.regions[region].blocks[0], [], values, (*path, region))

        program = _Compiled(self._source, self.module, types, make, wanted)
        yield program(operands[len(operation.operands) :], [])

    def condition(self, path: Path, operands: Arrays, wanted: Wanted) -> BlockValues:
        """The values of the condition of a while before its first trip.

        Args:
            operands: The first states, and the values that the regions capture.
        """

        def make(copies: _WhileCopies) -> list[MlirValue]:
            return copies.condition(copies.states)

        count = len(self._at(path).operands)
        return self._of_while(path, wanted, make)(operands, operands[:count])

    def trips(self, path: Path, operands: Arrays, wanted: Wanted) -> Iterator[BlockValues]:
        """The values of each trip of a while: of its body, and then of its condition.

        Args:
            operands: The first states, and the values that the regions capture.
        """

        def make(copies: _WhileCopies) -> list[MlirValue]:
            first = copies.condition(copies.states, is_wanted=False)
            after = copies.body(copies.states)
            return [*first, *copies.condition(after), *after]

        count = len(self._at(path).operands)
        program = self._of_while(path, wanted, make)
        states, captured = operands[:count], operands[count:]
        tensors = [place for place, state in enumerate(states) if state is not None]
        trip = 0
        while True:
            found = program([*states, *captured], states)
            first, again, *after = found.returned
            if trip == 0 and not first:
                return
            found.trip = trip
            found.returned = after
            yield found
            if not again:
                return
            states = list(states)
            for place, state in zip(tensors, after, strict=True):
                states[place] = state
            trip += 1

    def _of_while(
        self, path: Path, wanted: Wanted, make: Callable[[_WhileCopies], list[MlirValue]]
    ) -> _Compiled:
        """A function of the states of a while and of what its regions capture."""
        operation = self._at(path)
        types = [value.type for value in (*operation.operands, *captured_by(operation))]

        def body(
            module: ir.Operation, copies: BlockCopy, arguments: list[MlirValue]
        ) -> list[MlirValue]:
            return make(_WhileCopies(self._at(path, module), path, module, copies, arguments))

        return _Compiled(self._source, self.module, types, body, wanted)

    def _at(self, path: Path, module: ir.Operation | None = None) -> ir.Operation:
        return operation_at(module or self.module, self._source.function, path)


class _WhileCopies:
    """Makes copies of the regions of a while.

    Attributes:
        states: The states that the arguments hold.
    """

    def __init__(
        self,
        operation: ir.Operation,
        path: Path,
        module: ir.Operation,
        copies: BlockCopy,
        arguments: list[MlirValue],
    ) -> None:
        count = len(operation.operands)
        self.states = arguments[:count]
        self._captured = dict(zip(captured_by(operation), arguments[count:], strict=True))
        self._condition, self._body = (region.blocks[0] for region in operation.regions)
        self._path, self._copies = path, copies
        self._unobserved = BlockCopy(functions_of(module), Wanted())

    def condition(self, states: list[MlirValue], is_wanted: bool = True) -> list[MlirValue]:
        """What the condition returns. If `is_wanted` is false, its inner values are not results."""
        copies = self._copies if is_wanted else self._unobserved
        return copies.copy(self._condition, states, dict(self._captured), (*self._path, 0))

    def body(self, states: list[MlirValue]) -> list[MlirValue]:
        """What the body returns."""
        return self._copies.copy(self._body, states, dict(self._captured), (*self._path, 1))


Make = Callable[[ir.Operation, BlockCopy, list[MlirValue]], list[MlirValue]]


class _Compiled:
    """A function made of copies of blocks, compiled by XLA."""

    def __init__(
        self,
        source: Source,
        module: ir.Operation,
        types: Sequence[ir.Type],
        make: Make,
        wanted: Wanted,
        is_main: bool = False,
    ) -> None:
        copy = clone_module(module)
        copies = BlockCopy(functions_of(copy), wanted)
        self._results: dict[Path, list[int | None]] = {}
        self._operands: dict[Path, list[int | None]] = {}

        def body(arguments: list[MlirValue]) -> list[MlirValue]:
            returned = make(copy, copies, arguments)
            self._own = len(returned)
            self._results = positions(copies.results, returned)
            self._operands = positions(copies.operands, returned)
            return returned

        results = add_function(copy, types, body)
        functions_of(copy)[source.function].erase()
        extra = [_port(place, results[place]) for place in range(self._own, len(results))]
        if is_main:
            own = source.signature.outputs
            signature = replace(source.signature, outputs=(*own, *extra))
        else:
            signature = Signature(_ports(types), (*_ports(results[: self._own]), *extra))
        self._places = {
            port.position: index
            for index, port in enumerate(signature.outputs)
            if index >= len(signature.outputs) - len(extra) or not is_main
        }
        if is_main:
            for index, port in enumerate(source.signature.outputs):
                self._places.setdefault(port.position, index)
        self._count = len(signature.outputs) - len(extra)
        self._run = Reference(replace(source, module=copy, function=NAME, signature=signature))

    def __call__(self, arguments: Sequence[np.ndarray | None], own: Arrays) -> BlockValues:
        found = self._run([array for array in arguments if array is not None])
        return BlockValues(
            own,
            {path: self._read(found, places) for path, places in self._results.items()},
            {path: self._read(found, places) for path, places in self._operands.items()},
            found[: self._count],
        )

    def _read(self, found: Sequence[np.ndarray], places: Sequence[int | None]) -> Arrays:
        return [None if place is None else found[self._places[place]] for place in places]


def _port(position: int, mlir_type: ir.Type) -> Port:
    return Port(f"value{position}", element_type(mlir_type), (), position)


def _ports(types: Sequence[ir.Type]) -> tuple[Port, ...]:
    return tuple(_port(place, kind) for place, kind in enumerate(types) if is_tensor(kind))
