"""A module that transformations change: arguments and results of `main`, dead code."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.context import clone_module, parse_module
from hlo2onnx.frontend.mlir.functions import functions_of, set_function_type
from hlo2onnx.frontend.mlir.passes import run_pipeline
from hlo2onnx.frontend.mlir.values import MlirValue, is_used, operations_in, operations_of
from hlo2onnx.reduction.case import Case, Inputs
from hlo2onnx.reduction.endless_loops import has_endless_loop

_STRUCTURE = ("builtin.module", "func.func")
UNUSED_FUNCTIONS = "builtin.module(symbol-dce)"


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
        self.ops = counted(module)

    @classmethod
    def of(cls, case: Case) -> Draft:
        """The draft of a case."""
        return cls(parse_module(case.text, "the program").operation, case.inputs)

    def copy(self) -> Draft:
        """Another draft of the same program."""
        return Draft(clone_module(self.module), tuple(self.inputs))

    @property
    def block(self) -> ir.Block:
        """The block of `main`."""
        block: ir.Block = self.main.regions[0].blocks[0]
        return block

    @property
    def results(self) -> list[MlirValue]:
        """What `main` returns."""
        return list(operations_in(self.block)[-1].operands)

    def is_in_main(self, operation: ir.Operation) -> bool:
        """Whether an operation is in `main` or in a region of it."""
        while operation.name != "func.func":
            assert operation.parent is not None
            operation = operation.parent.operation
        return operation == self.main

    def add_argument(self, mlir_type: ir.Type, array: np.ndarray | None = None) -> MlirValue:
        """Adds an argument to `main`."""
        with self.module.context:
            made = self.block.add_argument(mlir_type, ir.Location.unknown())
            if "arg_attrs" in self.main.attributes:
                old = list(ir.ArrayAttr(self.main.attributes["arg_attrs"]))
                attributes = ir.ArrayAttr.get([*old, ir.DictAttr.get({})])
                self.main.attributes["arg_attrs"] = attributes
        self.inputs.append(array)
        self._retype()
        return made

    def drop_arguments(self, indices: Collection[int]) -> None:
        """Removes arguments of `main` that nothing reads."""
        for index in sorted(indices, reverse=True):
            self.block.erase_argument(index)
            del self.inputs[index]
            if "arg_attrs" in self.main.attributes:
                with self.module.context:
                    kept = list(ir.ArrayAttr(self.main.attributes["arg_attrs"]))
                    del kept[index]
                    self.main.attributes["arg_attrs"] = ir.ArrayAttr.get(kept)
        self._retype()

    def return_values(self, values: Sequence[MlirValue]) -> None:
        """Makes `main` return these values instead of its results."""
        end = operations_in(self.block)[-1]
        with self.module.context, ir.Location.unknown(), ir.InsertionPoint(end):
            ir.Operation.create(end.name, operands=list(values))
        end.erase()
        if "res_attrs" in self.main.attributes:
            del self.main.attributes["res_attrs"]
        self._retype()

    def clean(self) -> None:
        """Removes operations whose results nothing reads, and functions that nothing calls."""
        remove_dead_code(self.module)
        run_pipeline(self.module, UNUSED_FUNCTIONS)

    def case(self) -> Case | None:
        """The program as a case; None if it is not valid, or has a loop that cannot end."""
        try:
            if not self.module.verify() or has_endless_loop(self.module):
                return None
        except ir.MLIRError:
            return None
        text = str(self.module.get_asm(enable_debug_info=False))
        return Case(text, tuple(self.inputs), len(counted(self.module)))

    def _retype(self) -> None:
        results = operations_in(self.block)[-1].operands
        set_function_type(self.main, self.block.arguments.types, [each.type for each in results])


def counted(module: ir.Operation) -> list[ir.Operation]:
    """The operations of a module in order, without functions and terminators."""
    return [each for each in operations_of(module) if not _is_structure(each)]


def remove_dead_code(module: ir.Operation) -> None:
    """Erases, in place, operations whose results nothing reads, whatever their effects are."""
    # From the last to the first: readers before what they read, inner operations before outer ones.
    for operation in reversed(operations_of(module)):
        if not _is_structure(operation) and not any(map(is_used, operation.results)):
            operation.erase()


def _is_structure(operation: ir.Operation) -> bool:
    return operation.name in _STRUCTURE or operation.name.endswith(".return")
