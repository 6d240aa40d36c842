"""A program in XLA that takes the results of its decompositions as arguments.

Thus the reference can use the model's choice where results are not unique, or another choice. A
decomposition in a loop has no such arguments: it can run many times. There, the reference uses our
own algorithm, as the model does, if its results are as good as LAPACK's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.functions import functions_of, inline_calls, return_values
from hlo2onnx.frontend.mlir.types import element_type, numpy_type, shape_of
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    module_bytecode,
    operations_in,
    operations_of,
    returned_by,
)
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.through_jax import function_of
from hlo2onnx.verify.decompositions import Decomposition, decomposition_of
from hlo2onnx.verify.xla import Compile, XlaProgram

Results = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Site:
    """The operand and the results of one decomposition.

    Attributes:
        operand: The matrices.
        xla: LAPACK's results.
    """

    operand: np.ndarray
    xla: dict[str, np.ndarray]


def has_decompositions(module: ir.Operation) -> bool:
    """Whether a module has decompositions whose results are not unique."""
    return any(decomposition_of(operation) is not None for operation in operations_of(module))


class OpenReference:
    """A program opened at its decompositions.

    Attributes:
        decompositions: The decompositions outside of loops. Their results are arguments.
        closed: Whether there are others.
        every: All decompositions.

    Args:
        module: The module operation. It changes.
        results: Places of the outputs among its results.
        arguments: Converts inputs to the arguments of `main`.
        compiled: Compiles it.

    Raises:
        VerificationError: XLA does not compile it.
    """

    def __init__(
        self,
        module: ir.Operation,
        results: Sequence[int],
        arguments: Callable[[Sequence[np.ndarray]], Iterable[np.ndarray]],
        compiled: Compile = XlaProgram,
    ) -> None:
        every = [decomposition_of(operation) for operation in operations_of(module)]
        self.every = [item for item in every if item is not None]
        main = functions_of(module)["main"]
        with module.context, ir.Location.unknown():
            inline_calls(module, main)
            self._openings = _open(main)
            self.closed = _replace_closed(module, main, self._openings)
        self.decompositions = [item for item, _ in self._openings]
        self._types = [[_array_type(x.type) for x in each.results] for _, each in self._openings]
        self._own_programs: dict[str, XlaProgram] = {}
        self._module = module
        self._results = results
        self._arguments = arguments
        self._program = compiled(module_bytecode(module))

    def __call__(
        self, arrays: Sequence[np.ndarray], choices: Sequence[Results]
    ) -> tuple[list[np.ndarray], list[Site]]:
        """The outputs, and the operands and XLA's results of the decompositions.

        Args:
            choices: Results for each decomposition, or for the first ones. Those of the others are
                0.
        """
        given: list[np.ndarray] = []
        for index, types in enumerate(self._types):
            if index < len(choices):
                names = self.decompositions[index].names
                values = [choices[index][name] for name in names]
                pairs = zip(values, types, strict=True)
                given += [np.asarray(x).astype(kind.dtype) for x, kind in pairs]
            else:
                given += [np.zeros(kind.shape, kind.dtype) for kind in types]
        every = self._program([*self._arguments(arrays), *given], None)
        sites: list[Site] = []
        end = len(every)
        for decomposition in reversed(self.decompositions):
            count = len(decomposition.names)
            start = end - 1 - count
            operand, *results = every[start:end]
            sites.insert(0, Site(operand, decomposition.named(results)))
            end = start
        return [every[place] for place in self._results], sites

    def choices(
        self, arrays: Sequence[np.ndarray], choose: Callable[[int, Site], Results]
    ) -> list[Results]:
        """The results that a function chooses for each decomposition, in turn.

        Args:
            choose: Takes the index of a decomposition and its operand and results, which depend on
                the choices before.
        """
        found: list[Results] = []
        for index in range(len(self.decompositions)):
            found.append(choose(index, self(arrays, found)[1][index]))
        return found

    def own(self, index: int, site: Site) -> dict[str, np.ndarray]:
        """Our results for a decomposition, or LAPACK's if ours are not as good."""
        decomposition, operation = self._openings[index]
        text = _chosen(decomposition, operation)
        if text not in self._own_programs:
            self._own_programs[text] = XlaProgram(text.encode())
        given = [site.operand, *(site.xla[name] for name in decomposition.names)]
        return decomposition.named(self._own_programs[text](given))


def _array_type(mlir_type: ir.Type) -> jax.ShapeDtypeStruct:
    shape = tuple(dim or 0 for dim in shape_of(mlir_type))
    return jax.ShapeDtypeStruct(shape, numpy_type(element_type(mlir_type)))


def _chosen(decomposition: Decomposition, operation: ir.Operation) -> str:
    """A module whose `main` takes the operand and LAPACK's results. It returns ours if they are as
    good, and else LAPACK's."""
    own = function_of(CustomCall(operation))

    def choose(a: jax.Array, *xla: jax.Array) -> list[jax.Array]:
        theirs = decomposition.named(xla)
        ours = theirs if own is None else decomposition.named(jax.tree.leaves(own(a)))
        good = decomposition.are_good(a, ours, theirs)
        return [jnp.where(good, ours[name], theirs[name]) for name in decomposition.names]

    values = [*operation.operands, *operation.results]
    types = [_array_type(value.type) for value in values]
    with jax.enable_x64(True):
        lowered = jax.jit(choose, keep_unused=True).trace(*types).lower(lowering_platforms=("cpu",))
    return str(lowered.as_text())


Opening = tuple[Decomposition, ir.Operation]
"""An open decomposition, and its operation in the module."""


def _open(main: ir.Operation) -> list[Opening]:
    """Opens `main` at its decompositions, in place, and returns these in order.

    Its last arguments become the results of the decompositions, its last results their operands and
    results.
    """
    (block,) = main.regions[0].blocks
    openings: list[Opening] = []
    returned: list[MlirValue] = []
    for operation in operations_in(block):
        decomposition = decomposition_of(operation)
        if decomposition is None:
            continue
        with ir.InsertionPoint(operation):
            copy = operation.clone().operation
        for result in operation.results:
            argument = block.add_argument(result.type, operation.location)
            result.replace_all_uses_with(argument)
        operation.erase()
        openings.append((decomposition, copy))
        returned += [*copy.operands, *copy.results]
    return_values(main, [*returned_by(block), *returned])
    return openings


def _replace_closed(module: ir.Operation, main: ir.Operation, openings: Sequence[Opening]) -> bool:
    """Replaces the results of the decompositions in regions in place, and returns whether there are
    any."""
    opened = [operation for _, operation in openings]
    closed = [
        (operation, decomposition)
        for operation in operations_of(main)
        if (decomposition := decomposition_of(operation)) and operation not in opened
    ]
    choices: dict[str, str] = {}
    for operation, decomposition in closed:
        text = _chosen(decomposition, operation)
        if text not in choices:
            choices[text] = _added(module, text, f"choice{len(choices)}")
        with ir.InsertionPoint(operation):
            copy = operation.clone().operation
            types = [result.type for result in copy.results]
            operands = [*copy.operands, *copy.results]
            replaced = _called(choices[text], types, operands)
        for result, value in zip(operation.results, replaced, strict=True):
            result.replace_all_uses_with(value)
        operation.erase()
    return bool(closed)


def _added(module: ir.Operation, text: str, prefix: str) -> str:
    """Adds the functions of another module. Returns the name of its `main`."""
    text = _SYMBOL.sub(lambda match: f"{match[1]}@{prefix}.{match[2]}", text)
    other = ir.Module.parse(text, module.context)
    with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
        for item in operations_in(other.body):
            copy = item.clone().operation
            copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
    return f"{prefix}.main"


_SYMBOL = re.compile(r"(call |func\.func public |func\.func private )@([\w.]+)")


def _called(
    name: str, results: Sequence[ir.Type], operands: Sequence[MlirValue]
) -> list[MlirValue]:
    callee: dict[str, ir.Attribute] = {"callee": ir.FlatSymbolRefAttr.get(name)}
    return list(ir.Operation.create("func.call", results, operands, callee).results)
