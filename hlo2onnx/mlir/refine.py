"""A program of dynamic shapes for one set of static ones."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from jaxlib import _jax
from jaxlib.mlir import ir

from hlo2onnx.errors import UsageError
from hlo2onnx.mlir.passes import run_pipeline
from hlo2onnx.mlir.walk import operations_of


def refined(module_operation: Any, shapes: Sequence[Sequence[int] | None]) -> bytes:
    """Bytecode of a module whose @main takes arguments of these shapes, and in which no shape is
    dynamic any more; the module given is changed.

    Args:
        shapes: One per argument; None for one that is no tensor.

    Raises:
        UsageError: The program does not admit these shapes, or its shapes depend on data.
    """
    (main,) = (
        op.operation
        for op in module_operation.regions[0].blocks[0].operations
        if op.operation.name == "func.func" and op.operation.attributes["sym_name"].value == "main"
    )
    arguments = main.regions[0].blocks[0].arguments
    types = [
        str(argument.type) if shape is None else _type_of(argument.type, shape)
        for argument, shape in zip(arguments, shapes, strict=True)
    ]
    _drop_defaults(module_operation)
    pipeline = f"builtin.module(stablehlo-refine-arguments{{types={','.join(types)}}})"
    try:
        run_pipeline(module_operation, pipeline)
        stream = io.BytesIO()
        module_operation.write_bytecode(stream)
        content: bytes = _jax.mlir.refine_polymorphic_shapes(
            stream.getvalue(), enable_shape_assertions=True, validate_static_shapes=True
        )
    except (ir.MLIRError, _jax.JaxRuntimeError, ValueError) as error:
        raise UsageError(f"the program does not admit these shapes: {error}") from error
    return content


def _drop_defaults(module_operation: Any) -> None:
    """Leaves out, in place, that calls have no effect and call nothing: the pass takes those that
    say so, and are dynamic ops, for others."""
    for operation in operations_of(module_operation):
        if operation.name == "stablehlo.custom_call":
            attributes = operation.attributes
            if "has_side_effect" in attributes and not attributes["has_side_effect"].value:
                del attributes["has_side_effect"]
            if "called_computations" in attributes and not len(attributes["called_computations"]):
                del attributes["called_computations"]


def _type_of(mlir_type: Any, shape: Sequence[int]) -> str:
    element = ir.RankedTensorType(mlir_type).element_type
    return f"tensor<{''.join(f'{dim}x' for dim in shape)}{element}>"
