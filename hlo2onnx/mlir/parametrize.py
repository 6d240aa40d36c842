"""Turns constants into arguments: the reverse of `specialize`."""

from __future__ import annotations

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.mlir.constants import Constants, Splat, constant_bytes
from hlo2onnx.mlir.functions import function_type, set_function_type
from hlo2onnx.mlir.walk import operations_in

LARGE_BYTES = 1 << 20
"""Constants of at least this size become arguments. XLA copies constants several times."""


def large_constants_as_arguments(function: ir.Operation) -> list[np.ndarray]:
    """Replaces the large constants in a function's block by new last arguments, in place.

    Returns:
        Their contents, in memory that the module's context keeps.
    """
    block = function.regions[0].blocks[0]
    constants = Constants()
    arrays: list[np.ndarray] = []
    for operation in filter(_is_large, operations_in(block)):
        content = constants.read(operation)
        if isinstance(content, Splat):
            continue
        (result,) = operation.results
        result.replace_all_uses_with(block.add_argument(result.type, operation.location))
        operation.erase()
        arrays.append(content)
    if arrays:
        _retype(function, len(arrays))
    return arrays


def _is_large(operation: ir.Operation) -> bool:
    return operation.name == "stablehlo.constant" and constant_bytes(operation) >= LARGE_BYTES


def _retype(function: ir.Operation, added: int) -> None:
    """Gives a function the type of its block, whose last arguments are new."""
    types = function.regions[0].blocks[0].arguments.types
    set_function_type(function, types, function_type(function).results)
    if "arg_attrs" in function.attributes:
        with function.context:
            old = ir.ArrayAttr(function.attributes["arg_attrs"])
            attributes = [*old, *[ir.DictAttr.get({})] * added]
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
