"""Rounds the weights in a program as its model does."""

from __future__ import annotations

import math
from collections.abc import Collection

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.constants import Constants, Splat
from hlo2onnx.frontend.mlir.types import element_type, is_tensor, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, defining_operation, dense, made, operations_of
from hlo2onnx.ir.weight_storage import STORAGE_TYPES
from hlo2onnx.ir.weights import SMALL_ELEMENTS


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


_HALF = {"f16": (5, 10), "bf16": (8, 7)}
"""Bits of exponents and mantissas."""
_MOVES = frozenset(
    f"stablehlo.{name}" for name in ("broadcast_in_dim", "reshape", "slice", "transpose")
)


def keep_half_weights(module: ir.Operation, inputs: Collection[int]) -> None:
    """Rounds f32 weights that the program converts to a half type explicitly, in place.

    The evaluation in f64 converts nothing to narrower types. The model stores rounded weights.

    Args:
        inputs: Positions of the arguments of `main` that are no weights.
    """
    with module.context, ir.Location.unknown():
        for operation in list(operations_of(module)):
            if operation.name != "stablehlo.convert":
                continue
            x = operation.operands[0]
            bits = _HALF.get(element_type(operation.results[0].type))
            if bits is None or element_type(x.type) != "f32" or not _is_stored(x, inputs):
                continue
            i32 = ir.IntegerType.get_signless(32)
            exponent, mantissa = (ir.IntegerAttr.get(i32, count) for count in bits)
            with ir.InsertionPoint(operation):
                operation.operands[0] = made(
                    "reduce_precision", x.type, x, exponent_bits=exponent, mantissa_bits=mantissa
                )


def _is_stored(value: MlirValue, inputs: Collection[int]) -> bool:
    """Whether a value is a constant or a bound argument, perhaps moved."""
    maker = defining_operation(value)
    if maker is not None and maker.name in _MOVES:
        return _is_stored(maker.operands[0], inputs)
    if maker is not None:
        return maker.name == "stablehlo.constant"
    argument: ir.BlockArgument[ir.Type] = ir.BlockArgument(value)
    function = argument.owner.owner.operation
    is_main = function.name == "func.func" and str(function.attributes["sym_name"]) == '"main"'
    return is_main and argument.arg_number not in inputs


def _is_weight(mlir_type: ir.Type) -> bool:
    if not is_tensor(mlir_type) or element_type(mlir_type) != "f32":
        return False
    return math.prod(dim or 0 for dim in shape_of(mlir_type)) > SMALL_ELEMENTS
