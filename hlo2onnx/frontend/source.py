"""A loaded program: a module, the function to translate and its signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError, UsageError
from hlo2onnx.frontend.mlir.attributes import text_of
from hlo2onnx.frontend.mlir.context import clone_module
from hlo2onnx.frontend.mlir.functions import argument_attributes, functions_of, specialize
from hlo2onnx.frontend.signature import PyTree, Signature


@dataclass(frozen=True)
class Source:
    """A loaded program.

    Attributes:
        module: The MLIR module, perhaps without branches that count as not taken. It must not
            change: it may be the user's module, and XLA runs it as the reference.
        function: Symbol of the function to translate.
        signature: Names and types of its inputs and outputs, and their pytrees where known.
        description: Name of the program in reports ("jit_f", "model.mlir").
        weights: If the program is that of a module or another callable with weights, its weights,
            which are the first argument.
        notes: Notes for the report on parts that were left out.
        at_sizes: Lowers the function of the program again for sizes of its symbols, by name; None
            if it is not known. The result has all arguments of the first module.
    """

    module: ir.Module | ir.Operation
    function: str
    signature: Signature
    description: str
    notes: tuple[str, ...] = ()
    weights: PyTree = None
    at_sizes: Callable[[Mapping[str, int]], Source] | None = None


def bind_added_arguments(
    module: ir.Module, platforms: Sequence[str], constants: Sequence[object]
) -> ir.Module | ir.Operation:
    """Fixes the arguments that JAX has added to the function of a module.

    A program for several platforms takes the index of its platform. With
    `jax_use_simplified_jaxpr_constants`, it takes large constants.

    Args:
        module: The module. It does not change.
        platforms: The platforms of the lowering.
        constants: Values of the arguments that are constants.

    Returns:
        A changed copy, or the module if it has no such arguments.
    """
    attributes = argument_attributes(find_function(module.operation, "main", "the program"))
    remaining = iter(constants)
    values = {}
    for position, names in enumerate(attributes):
        if names.get("jax.global_constant") == "_platform_index":
            # Runtimes of ONNX are most like XLA on the CPU.
            index = platforms.index("cpu") if "cpu" in platforms else 0
            values[position] = np.array(index, np.int32)
        elif "jax.const" in names:
            values[position] = np.asarray(next(remaining))
    if not values:
        return module
    clone = clone_module(module)
    specialize(find_function(clone, "main", "the program"), values)
    return clone


def find_function(module_operation: ir.Operation, wanted: str | None, what: str) -> ir.Operation:
    """The `func.func` to translate: the wanted one, else `main`, else the only public one.

    Raises:
        LoadError: There is no such function, or its body is not one block.
        UsageError: The wanted function does not exist.
    """
    functions = functions_of(module_operation)
    name = _chosen(functions, wanted, what)
    blocks = len(functions[name].regions[0].blocks)
    if blocks == 0:
        raise LoadError(f"{what} only declares @{name}; its body is missing")
    if blocks > 1:
        raise LoadError(
            f"@{name} of {what} has branches between blocks, which StableHLO does not have"
        )
    return functions[name]


def _chosen(functions: Mapping[str, ir.Operation], wanted: str | None, what: str) -> str:
    if wanted is not None:
        wanted = wanted.removeprefix("@")
        if wanted not in functions:
            raise UsageError(f"{what} has no function @{wanted}; it has {_listed(functions)}")
        return wanted
    if "main" in functions:
        return "main"
    public = [name for name, function in functions.items() if _is_public(function)]
    if len(public) == 1:
        return public[0]
    if not functions:
        raise LoadError(f"{what} has no function to translate")
    raise LoadError(
        f"{what} has no function @main; it has {_listed(functions)}:"
        " choose one with function= (--function in the CLI)"
    )


def _is_public(function: ir.Operation) -> bool:
    is_given = "sym_visibility" in function.attributes
    return not is_given or text_of(function, "sym_visibility") == "public"


def _listed(functions: Mapping[str, ir.Operation]) -> str:
    return ", ".join(f"@{name}" for name in functions) or "no function at all"
