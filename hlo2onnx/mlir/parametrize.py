"""Making arguments of constants: the reverse of `specialize`."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.mlir.constants import Constants, Splat, constant_bytes

LARGE_BYTES = 1 << 20
"""Constants of at least this size become arguments: XLA copies constants several times, and has
no advantage of knowing them."""


def large_constants_as_arguments(module_operation: Any, function: Any) -> list[np.ndarray]:
    """Replaces the large constants of a function's own block, in place, by arguments after those
    it has; returns their contents, which the module's context keeps."""
    block = function.regions[0].blocks[0]
    large = [item.operation for item in block.operations if _is_large(item.operation)]
    if not large:
        return []
    constants = Constants()
    arrays: list[np.ndarray] = []
    for operation in large:
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


def _is_large(operation: Any) -> bool:
    return operation.name == "stablehlo.constant" and constant_bytes(operation) >= LARGE_BYTES


def _retype(function: Any, added: int) -> None:
    """Makes a function's type that of its block, the last of whose arguments are new."""
    types = [argument.type for argument in function.regions[0].blocks[0].arguments]
    with function.context:
        results = function.attributes["function_type"].value.results
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, results))
        if "arg_attrs" in function.attributes:
            attributes = [*function.attributes["arg_attrs"], *[ir.DictAttr.get({})] * added]
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
