"""A program under reduction: its text, arrays for its arguments, and the module that changes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.frontend.mlir.functions import functions_of, return_values
from hlo2onnx.frontend.mlir.passes import run_pipeline
from hlo2onnx.frontend.mlir.values import MlirValue, is_used, operations_of, returned_by

Inputs = tuple[np.ndarray | None, ...]
"""One entry per argument: its array, or None for an argument with random numbers."""

_STRUCTURE = ("builtin.module", "func.func")


@dataclass(frozen=True)
class Case:
    """A program that can be tested.

    Attributes:
        text: StableHLO text with a function `main`.
        inputs: What `main` is run on.
        ops: Count of ops, without functions and terminators.
    """

    text: str
    inputs: Inputs
    ops: int

    @cached_property
    def key(self) -> str:
        """The same for equal cases."""
        digest = hashlib.sha256(self.text.encode())
        for array in self.inputs:  # types and shapes are in the text
            digest.update(b"|" if array is None else array.tobytes())
        return digest.hexdigest()

    @property
    def size(self) -> tuple[int, int, int]:
        """What a reduction makes smaller: ops, arguments and text."""
        return self.ops, len(self.inputs), len(self.text)


class Draft:
    """A copy of a program that a transformation changes in place.

    Attributes:
        module: The module operation.
        inputs: Arrays of the arguments of `main`.
        ops: The operations at the time of the copy, without functions and terminators. Their order
            is the same in all copies of a module.
    """

    def __init__(self, module: ir.Operation, inputs: Inputs) -> None:
        self.module = module
        self.inputs = list(inputs)
        self.main = functions_of(module)["main"]
        self.block: ir.Block = self.main.regions[0].blocks[0]
        self.ops = _counted(module)

    @classmethod
    def of(cls, case: Case) -> Draft:
        """The draft of a case."""
        return cls(parse_module(case.text, "the program").operation, case.inputs)

    @property
    def results(self) -> list[MlirValue]:
        """What `main` returns."""
        return returned_by(self.block)

    def add_argument(self, mlir_type: ir.Type) -> MlirValue:
        """Adds an argument with random numbers to `main`."""
        with self.module.context:
            made = self.block.add_argument(mlir_type, ir.Location.unknown())
        self.inputs.append(None)
        return_values(self.main, self.results)
        return made

    def return_values(self, values: Sequence[MlirValue]) -> None:
        """Makes `main` return these values instead of its results."""
        return_values(self.main, values)

    def clean(self) -> None:
        """Removes ops and arguments that nothing reads, and functions that nothing calls."""
        # From the last to the first: readers before what they read, inner ops before outer ones.
        for operation in reversed(_counted(self.module)):
            if not any(map(is_used, operation.results)):
                operation.erase()
        for index in reversed(range(len(self.inputs))):
            if not is_used(self.block.arguments[index]):
                self.block.erase_argument(index)
                del self.inputs[index]
        return_values(self.main, self.results)
        run_pipeline(self.module, "builtin.module(symbol-dce)")

    def case(self) -> Case | None:
        """The program as a case; None if it is not valid."""
        try:
            if not self.module.verify():
                return None
        except ir.MLIRError:
            return None
        text = str(self.module.get_asm(enable_debug_info=False))
        return Case(text, tuple(self.inputs), len(_counted(self.module)))


def _counted(module: ir.Operation) -> list[ir.Operation]:
    """The operations of a module in order, without functions and terminators."""
    return [
        each
        for each in operations_of(module)
        if each.name not in _STRUCTURE and not each.name.endswith(".return")
    ]
