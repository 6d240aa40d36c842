"""Custom calls that stand for ops: how programs carry ops that StableHLO itself does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.mlir.dynamic_calls import fault_of, operands_of
from hlo2onnx.mlir.values import defining_operation
from hlo2onnx.mlir.walk import operations_of

_IN_CHLO = {
    f"mhlo.{name}": f"chlo.{name}"
    for name in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan")
}
"""Those of XLA's own dialect that StableHLO has no op for, and CHLO has. (`mhlo.topk` also looks
for the smallest, which `chlo.top_k` does not.)"""


def replace_calls(module_operation: Any) -> None:
    """Replaces, in place, custom calls by the ops they stand for: `@mhlo.erf` and its like, and
    the dynamic forms of ops where what would make them dynamic is constant; and takes out marks,
    `@xla_mark_tensor`."""
    for operation in operations_of(module_operation):
        if operation.name != "stablehlo.custom_call":
            continue
        make = _MAKERS.get(operation.attributes["call_target_name"].value)
        if make is None or fault_of(operation) is not None:
            continue
        with ir.InsertionPoint(operation), operation.location:
            made = make(operation)
        if made is not None:
            for old, new in zip(operation.results, made, strict=True):
                old.replace_all_uses_with(new)
            operation.erase()


def _in_chlo(call: Any) -> Sequence[Any]:
    name = _IN_CHLO[call.attributes["call_target_name"].value]
    return list(ir.Operation.create(name, _types(call), list(call.operands)).results)


def _marked(call: Any) -> Sequence[Any]:
    """What marks the bounds of a pattern passes on what it is given."""
    return list(call.operands)


def _reduce_window(call: Any) -> Sequence[Any] | None:
    """dynamic_reduce_window(inputs, inits, window_dimensions, window_strides, base_dilations,
    window_dilations, padding), with the computation as a called one."""
    *values, dims, strides, base, window, padding = operands_of(call)
    arrays = [_constant(value) for value in (dims, strides, base, window)]
    pads = defining_operation(padding)
    if pads is None or pads.name != "stablehlo.constant" or any(item is None for item in arrays):
        return None
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    attributes = {"padding": pads.attributes["value"], **dict(zip(names, arrays, strict=True))}
    made = ir.Operation.create(
        "stablehlo.reduce_window", _types(call), values, attributes, regions=1
    )
    scalars = [_scalar(value.type) for value in values]
    block = made.regions[0].blocks.append(*scalars, arg_locs=[call.location] * len(scalars))
    with ir.InsertionPoint(block):
        (computation,) = call.attributes["called_computations"]
        results = scalars[: len(scalars) // 2]
        returned = ir.Operation.create(
            "func.call", results, list(block.arguments), {"callee": computation}
        )
        ir.Operation.create("stablehlo.return", operands=list(returned.results))
    return list(made.results)


def _rng_bit_generator(call: Any) -> Sequence[Any] | None:
    """dynamic_rng_bit_generator(state, shape), whose results have static types."""
    if not all(ir.RankedTensorType(mlir_type).has_static_shape for mlir_type in _types(call)):
        return None
    attributes = {"rng_algorithm": call.attributes["rng_algorithm"]}
    operands = operands_of(call)[:1]
    made = ir.Operation.create("stablehlo.rng_bit_generator", _types(call), operands, attributes)
    return list(made.results)


_MAKERS: Mapping[str, Callable[[Any], Sequence[Any] | None]] = {
    **dict.fromkeys(_IN_CHLO, _in_chlo),
    "stablehlo.dynamic_reduce_window": _reduce_window,
    "stablehlo.dynamic_rng_bit_generator": _rng_bit_generator,
    "xla_mark_tensor": _marked,
}
"""What makes the results of a target's call, or None where it is dynamic."""


def _types(call: Any) -> list[Any]:
    return [result.type for result in call.results]


def _scalar(mlir_type: Any) -> Any:
    return ir.RankedTensorType.get([], ir.RankedTensorType(mlir_type).element_type)


def _constant(value: Any) -> Any | None:
    """The integers of a constant as an attribute."""
    maker = defining_operation(value)
    if maker is None or maker.name != "stablehlo.constant":
        return None
    return ir.DenseI64ArrayAttr.get([int(n) for n in np.array(maker.attributes["value"])])
