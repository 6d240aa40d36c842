"""Replaces custom calls that represent ops, such as `@mhlo.erf`, by these ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jaxlib.mlir import ir

from hlo2onnx.mlir.attributes import text_of
from hlo2onnx.mlir.dynamic_calls import fault_of, operands_of
from hlo2onnx.mlir.values import constant_operation, integers_of
from hlo2onnx.mlir.walk import MlirValue, operations_of

_IN_CHLO = {
    f"mhlo.{name}": f"chlo.{name}"
    for name in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan")
}
"""Ops of MHLO that CHLO has and StableHLO has not. (`mhlo.topk` is not among them: it can also find
the smallest elements.)"""


def replace_calls(module_operation: ir.Operation) -> None:
    """Replaces custom calls in place.

    These are ops of MHLO, dynamic forms of ops whose dynamic operands are constants, and the marks
    `@xla_mark_tensor`.
    """
    for operation in operations_of(module_operation):
        if operation.name != "stablehlo.custom_call":
            continue
        make = _MAKERS.get(text_of(operation, "call_target_name"))
        if make is None or fault_of(operation) is not None:
            continue
        with ir.InsertionPoint(operation), operation.location:
            made = make(operation)
        if made is not None:
            for old, new in zip(operation.results, made, strict=True):
                old.replace_all_uses_with(new)
            operation.erase()


def _in_chlo(call: ir.Operation) -> Sequence[MlirValue]:
    name = _IN_CHLO[text_of(call, "call_target_name")]
    return list(ir.Operation.create(name, _types(call), list(call.operands)).results)


def _marked(call: ir.Operation) -> Sequence[MlirValue]:
    """A mark returns its operands."""
    return list(call.operands)


def _reduce_window(call: ir.Operation) -> Sequence[MlirValue] | None:
    """dynamic_reduce_window(inputs, inits, window_dimensions, window_strides, base_dilations,
    window_dilations, padding), whose computation is a called function."""
    operands = operands_of(call)
    values = operands[:-5]
    constants = [found for x in operands[-5:] if (found := constant_operation(x)) is not None]
    if len(constants) != 5:
        return None
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    arrays = (ir.DenseI64ArrayAttr.get(integers_of(item).tolist()) for item in constants[:-1])
    attributes: dict[str, ir.Attribute] = dict(zip(names, arrays, strict=True))
    attributes["padding"] = constants[-1].attributes["value"]
    made = ir.Operation.create(
        "stablehlo.reduce_window", _types(call), values, attributes, regions=1
    )
    scalars = [_scalar(value.type) for value in values]
    block = made.regions[0].blocks.append(*scalars, arg_locs=[call.location] * len(scalars))
    with ir.InsertionPoint(block):
        (computation,) = ir.ArrayAttr(call.attributes["called_computations"])
        results = scalars[: len(scalars) // 2]
        returned = ir.Operation.create(
            "func.call", results, list(block.arguments), {"callee": computation}
        )
        ir.Operation.create("stablehlo.return", operands=list(returned.results))
    return list(made.results)


def _rng_bit_generator(call: ir.Operation) -> Sequence[MlirValue] | None:
    """dynamic_rng_bit_generator(state, shape) with results of static types."""
    if not all(ir.RankedTensorType(mlir_type).has_static_shape for mlir_type in _types(call)):
        return None
    attributes = {"rng_algorithm": call.attributes["rng_algorithm"]}
    operands = operands_of(call)[:1]
    made = ir.Operation.create("stablehlo.rng_bit_generator", _types(call), operands, attributes)
    return list(made.results)


_MAKERS: Mapping[str, Callable[[ir.Operation], Sequence[MlirValue] | None]] = {
    **dict.fromkeys(_IN_CHLO, _in_chlo),
    "stablehlo.dynamic_reduce_window": _reduce_window,
    "stablehlo.dynamic_rng_bit_generator": _rng_bit_generator,
    "xla_mark_tensor": _marked,
}
"""Functions that make the results of a target's call; None if it is dynamic."""


def _types(call: ir.Operation) -> list[ir.Type]:
    return [result.type for result in call.results]


def _scalar(mlir_type: ir.Type) -> ir.Type:
    return ir.RankedTensorType.get([], ir.RankedTensorType(mlir_type).element_type)
