"""A loaded program: a module, the function to translate and its signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo2onnx.errors import LoadError, UsageError
from hlo2onnx.mlir.context import clone_module
from hlo2onnx.mlir.functions import argument_attributes
from hlo2onnx.mlir.specialize import specialize
from hlo2onnx.sources.signature import Signature


@dataclass(frozen=True)
class Source:
    """What `load` makes of any accepted input.

    Attributes:
        module: The MLIR module in its own context: as it came, or without branches that count as
            not taken. Never changed: it may be the user's live module, and it is what XLA runs as
            the reference.
        function: Symbol of the function to translate.
        signature: Names and types of its inputs and outputs, and their pytrees where known.
        description: What to call the program in reports ("jit_f", "model.mlir").
        notes: What was left out of the module, for the report.
    """

    module: Any
    function: str
    signature: Signature
    description: str
    notes: tuple[str, ...] = ()


def bind_added_arguments(module: Any, platforms: Sequence[str], constants: Sequence[Any]) -> Any:
    """A module made by JAX without the arguments that no caller passes.

    A program for several platforms takes the index of the one it runs on; with
    `jax_use_simplified_jaxpr_constants` it takes large constants.

    Args:
        module: The module; it stays as it is, where there is something to bind a copy is made.
        platforms: The platforms it was lowered for.
        constants: Values of its arguments that are constants.
    """
    attributes = argument_attributes(find_function(module.operation, "main", "the program"))
    remaining = iter(constants)
    values = {}
    for position, names in enumerate(attributes):
        if names.get("jax.global_constant") == "_platform_index":
            # ONNX runs wherever its runtime runs, and that is most like XLA on the CPU.
            index = platforms.index("cpu") if "cpu" in platforms else 0
            values[position] = np.array(index, np.int32)
        elif "jax.const" in names:
            values[position] = np.asarray(next(remaining))
    if not values:
        return module
    clone = clone_module(module)
    specialize(find_function(clone, "main", "the program"), values)
    return clone


def find_function(module_operation: Any, wanted: str | None, what: str) -> Any:
    """The `func.func` to translate: the wanted one, else `main`, else the only public one.

    Raises:
        LoadError: There is no such function, or it has no body of one block.
        UsageError: The wanted function does not exist.
    """
    functions = {}
    for op in module_operation.regions[0].blocks[0].operations:
        if op.operation.name == "func.func":
            functions[op.operation.attributes["sym_name"].value] = op.operation
    name = _chosen(functions, wanted, what)
    blocks = len(functions[name].regions[0].blocks)
    if blocks == 0:
        raise LoadError(f"{what} only declares @{name}; its body is missing")
    if blocks > 1:
        raise LoadError(f"@{name} of {what} has branches between blocks, which StableHLO has not")
    return functions[name]


def _chosen(functions: dict[str, Any], wanted: str | None, what: str) -> str:
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


def _is_public(function: Any) -> bool:
    names = [a if isinstance(a, str) else a.name for a in function.attributes]
    if "sym_visibility" not in names:
        return True
    return bool(function.attributes["sym_visibility"].value == "public")


def _listed(functions: dict[str, Any]) -> str:
    return ", ".join(f"@{name}" for name in functions) or "no function at all"
