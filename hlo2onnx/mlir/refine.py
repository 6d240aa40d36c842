"""Refines a program of dynamic shapes to static shapes."""

from __future__ import annotations

import io
from collections.abc import Sequence

from jaxlib import _jax
from jaxlib.mlir import ir

from hlo2onnx.errors import UsageError
from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.functions import functions_of
from hlo2onnx.mlir.passes import run_pipeline
from hlo2onnx.mlir.walk import operations_of


def refined(module_operation: ir.Operation, shapes: Sequence[Sequence[int] | None]) -> bytes:
    """Gives the arguments of @main static shapes, and infers all other shapes.

    Args:
        module_operation: The module. It changes.
        shapes: One per argument; None for an argument that is no tensor.

    Returns:
        Bytecode of the static module.

    Raises:
        UsageError: The program does not admit these shapes, or its shapes depend on data.
    """
    arguments = functions_of(module_operation)["main"].regions[0].blocks[0].arguments
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


def _drop_defaults(module_operation: ir.Operation) -> None:
    """Removes attributes that repeat defaults. With them, the pass does not see dynamic ops."""
    for operation in operations_of(module_operation):
        if operation.name == "stablehlo.custom_call":
            attributes = operation.attributes
            for name in ("has_side_effect", "called_computations"):
                if name in attributes and not to_python(attributes[name]):
                    del attributes[name]


def _type_of(mlir_type: ir.Type, shape: Sequence[int]) -> str:
    element = ir.RankedTensorType(mlir_type).element_type
    return f"tensor<{''.join(f'{dim}x' for dim in shape)}{element}>"
