"""Rounds the weights in a program as `weights_dtype=` does in its model."""

from __future__ import annotations

import math

from jaxlib.mlir import ir

from hlo2onnx.ir.weights import SMALL_ELEMENTS
from hlo2onnx.mlir.constants import Constants, Splat
from hlo2onnx.mlir.types import element_type, is_tensor, shape_of
from hlo2onnx.mlir.values import dense
from hlo2onnx.mlir.walk import operations_of
from hlo2onnx.rewrite.weight_storage import STORAGE_TYPES


def round_constants(module: ir.Operation, name: str) -> None:
    """Rounds the f32 constants that are weights, in place.

    Args:
        module: The module, with dense constants.
        name: The storage type, a key of `STORAGE_TYPES`.
    """
    narrow = STORAGE_TYPES[name].numpy()
    constants = Constants()
    for operation in operations_of(module):
        if operation.name != "stablehlo.constant" or not _is_weight(operation.results[0].type):
            continue
        content = constants.read(operation)
        if isinstance(content, Splat):  # it is stored as a scalar
            continue
        rounded = content.astype(narrow).astype(content.dtype)
        operation.attributes["value"] = dense(rounded, operation.results[0].type)


def _is_weight(mlir_type: ir.Type) -> bool:
    if not is_tensor(mlir_type) or element_type(mlir_type) != "f32":
        return False
    return math.prod(dim or 0 for dim in shape_of(mlir_type)) > SMALL_ELEMENTS
