"""The form of a module that the lowering walks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError
from hlo2onnx.mlir.constants import densify
from hlo2onnx.mlir.context import clone_module
from hlo2onnx.mlir.custom_call_ops import replace_calls
from hlo2onnx.mlir.passes import NORMALIZE, run_pipeline
from hlo2onnx.mlir.quant.to_integers import is_quantized, quantized_to_calls
from hlo2onnx.mlir.stored_floats import store_floats


def normalized(module: Any, stored: Collection[str] = ()) -> Any:
    """A copy of a module, as an operation, with dense constants and without deprecated ops and
    quantized types.

    Args:
        stored: Float types that the model holds as the integers of their bits, see
            `hlo2onnx.mlir.stored_floats`.

    Raises:
        LoadError: A resource of a constant is missing or has the wrong size, a type is quantized
            in a way that is not supported, an op needs a type that is stored as bits, or MLIR
            refuses to rewrite an op.
    """
    copy = clone_module(module)
    densify(copy)
    replace_calls(copy)
    try:
        run_pipeline(copy, NORMALIZE)
    except ir.MLIRError as error:
        raise LoadError(f"the program is not valid StableHLO: {_first_line(error)}") from error
    if is_quantized(copy):
        quantized_to_calls(copy)
    store_floats(copy, stored)
    return copy


def _first_line(error: Any) -> str:
    found = error.error_diagnostics
    return f"{found[0].message}\n  where  {found[0].location}" if found else str(error)


def functions_of(module_operation: Any) -> dict[str, Any]:
    """The functions of a module by symbol."""
    return {
        op.operation.attributes["sym_name"].value: op.operation
        for op in module_operation.regions[0].blocks[0].operations
        if op.operation.name == "func.func"
    }
