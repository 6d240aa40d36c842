"""Values within a program, as XLA computes them on the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
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
        trip: The trip number, if it is the body of a loop.
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

        program = _Compiled(self._source, self.module, types, make, wanted, self._source.signature)
        return program(arrays, self._arguments(arrays))

    def _arguments(self, arrays: Sequence[np.ndarray]) -> Arrays:
        block = block_at(self.module, self._source.function, ())
        arguments: Arrays = [None] * len(block.arguments)
        for port, array in zip(self._source.signature.inputs, arrays, strict=True):
            arguments[port.position] = array
        for item in self._source.signature.bound:
            arguments[item.port.position] = item.array
        return arguments

    def branch(self, path: Path, region: int, operands: Arrays, wanted: Wanted) -> BlockValues:
        """The values of a branch.

        Args:
            operands: The operands of the op, and the values that it captures.
        """
        operation = self._at(path)

        def make(
            module: ir.Operation, copies: BlockCopy, arguments: list[MlirValue]
        ) -> list[MlirValue]:
            here = self._at(path, module)
            values = dict(zip(captured_by(here), arguments, strict=True))
            return copies.copy(here.regions[region].blocks[0], [], values, (*path, region))

        program = _Compiled(self._source, self.module, _types(captured_by(operation)), make, wanted)
        return program(operands[len(operation.operands) :], [])

    def trips(self, path: Path, operands: Arrays, wanted: Wanted) -> Iterator[BlockValues]:
        """The values of each trip of a while: of its body, and then of its condition.

        Args:
            operands: The first states, and the values that the regions capture.
        """
        operation = self._at(path)
        count = len(operation.operands)

        def make(
            module: ir.Operation, copies: BlockCopy, arguments: list[MlirValue]
        ) -> list[MlirValue]:
            here = self._at(path, module)
            condition, body = (region.blocks[0] for region in here.regions)
            states = arguments[:count]
            captured = dict(zip(captured_by(here), arguments[count:], strict=True))
            unobserved = BlockCopy(functions_of(module), Wanted())
            first = unobserved.copy(condition, states, dict(captured), (*path, 0))
            after = copies.copy(body, states, dict(captured), (*path, 1))
            again = copies.copy(condition, after, dict(captured), (*path, 0))
            return [*first, *again, *after]

        types = _types([*operation.operands, *captured_by(operation)])
        program = _Compiled(self._source, self.module, types, make, wanted)
        states, captured = operands[:count], operands[count:]
        tensors = [place for place, state in enumerate(states) if state is not None]
        for trip in itertools.count():
            found = program([*states, *captured], states)
            first, again, *after = found.returned
            if trip == 0 and not first:
                return
            found.trip = trip
            yield found
            if not again:
                return
            states = list(states)
            for place, state in zip(tensors, after, strict=True):
                states[place] = state

    def _at(self, path: Path, module: ir.Operation | None = None) -> ir.Operation:
        return operation_at(module or self.module, self._source.function, path)


Make = Callable[[ir.Operation, BlockCopy, list[MlirValue]], list[MlirValue]]


class _Compiled:
    """A function made of copies of blocks, compiled by XLA.

    Args:
        main: The signature, if the function is a copy of the whole program.
    """

    def __init__(
        self,
        source: Source,
        module: ir.Operation,
        types: Sequence[ir.Type],
        make: Make,
        wanted: Wanted,
        main: Signature | None = None,
    ) -> None:
        copy = clone_module(module)
        copies = BlockCopy(functions_of(copy), wanted)
        own = 0

        def body(arguments: list[MlirValue]) -> list[MlirValue]:
            nonlocal own
            returned = make(copy, copies, arguments)
            own = len(returned)
            self._results = positions(copies.results, returned)
            self._operands = positions(copies.operands, returned)
            return returned

        ports = _ports(add_function(copy, types, body))
        functions_of(copy)[source.function].erase()
        outputs = tuple(port for port in ports if port.position < own)
        signature = main or Signature(_ports(types), outputs)
        self._count = len(signature.outputs)
        extra = tuple(port for port in ports if port.position >= own)
        signature = replace(signature, outputs=(*signature.outputs, *extra))
        self._places = {port.position: index for index, port in enumerate(signature.outputs)}
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


def _ports(types: Sequence[ir.Type]) -> tuple[Port, ...]:
    """The ports of tensors; a token has none."""
    return tuple(
        Port(f"value{place}", element_type(kind), (), place)
        for place, kind in enumerate(types)
        if is_tensor(kind)
    )


def _types(values: Iterable[MlirValue]) -> list[ir.Type]:
    return [value.type for value in values]
