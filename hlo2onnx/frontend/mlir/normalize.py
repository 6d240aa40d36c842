"""The form of a module that the lowering takes."""

from __future__ import annotations

from collections.abc import Collection

from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError
from hlo2onnx.frontend.mlir.constants import densify
from hlo2onnx.frontend.mlir.context import clone_module
from hlo2onnx.frontend.mlir.passes import NORMALIZE, replace_calls, run_pipeline
from hlo2onnx.frontend.mlir.quantization import quantization_of, quantized_to_calls
from hlo2onnx.frontend.mlir.stored_floats import store_floats
from hlo2onnx.frontend.mlir.values import types_in


def normalized(module: ir.Module | ir.Operation, stored: Collection[str] = ()) -> ir.Operation:
    """Copies a module, with dense constants and without deprecated ops and quantized types.

    Args:
        stored: Float types that the model holds as the integers of their bits. See
            `hlo2onnx.frontend.mlir.stored_floats`.

    Returns:
        The module operation of the copy.

    Raises:
        LoadError: A resource of a constant is missing or has the wrong size, a kind of quantization
            is not supported, an op needs a type that is stored as bits, or MLIR cannot rewrite an
            op.
    """
    copy = clone_module(module)
    densify(copy)
    replace_calls(copy)
    try:
        run_pipeline(copy, NORMALIZE)
    except ir.MLIRError as error:
        raise LoadError(f"the program is not valid StableHLO: {_first_line(error)}") from error
    types = types_in(copy)
    if any(map(quantization_of, types)):
        quantized_to_calls(copy)
        types = types_in(copy)
    store_floats(copy, stored, types)
    return copy


def _first_line(error: ir.MLIRError) -> str:
    found = error.error_diagnostics
    return f"{found[0].message}\n  where  {found[0].location}" if found else str(error)
