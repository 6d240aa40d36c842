"""A loaded program: a module, the function to translate and its signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hlo2onnx.errors import LoadError, UsageError
from hlo2onnx.sources.signature import Signature


@dataclass(frozen=True)
class Source:
    """What `load` makes of any accepted input.

    Attributes:
        module: The MLIR module as it came, in its own context. Never changed: it may be the
            user's live module, and it is what XLA runs as the reference.
        function: Symbol of the function to translate.
        signature: Names and types of its inputs and outputs, and their pytrees where known.
        description: What to call the program in reports ("jit_f", "model.mlir").
    """

    module: Any
    function: str
    signature: Signature
    description: str


def find_function(module_operation: Any, wanted: str | None, what: str) -> Any:
    """The `func.func` to translate: the wanted one, else `main`, else the only public one.

    Raises:
        LoadError: There is no such function.
        UsageError: The wanted function does not exist.
    """
    functions = {}
    for op in module_operation.regions[0].blocks[0].operations:
        if op.operation.name == "func.func":
            functions[op.operation.attributes["sym_name"].value] = op.operation
    if wanted is not None:
        if wanted not in functions:
            raise UsageError(f"{what} has no function @{wanted}; it has {_listed(functions)}")
        return functions[wanted]
    if "main" in functions:
        return functions["main"]
    public = [name for name, function in functions.items() if _is_public(function)]
    if len(public) == 1:
        return functions[public[0]]
    raise LoadError(
        f"{what} has no function @main; it has {_listed(functions)}: name one with function="
    )


def _is_public(function: Any) -> bool:
    names = [a if isinstance(a, str) else a.name for a in function.attributes]
    if "sym_visibility" not in names:
        return True
    return bool(function.attributes["sym_visibility"].value == "public")


def _listed(functions: dict[str, Any]) -> str:
    return ", ".join(f"@{name}" for name in functions) or "no function at all"
