"""Quantized types, `!quant.uniform`, as the integers that store them.

Past this module nothing knows of them: values have their storage type, ops that compute have floats
on both sides, and between the two stand calls of `QUANTIZE` and `DEQUANTIZE`, or what these compute
in StableHLO, for XLA, which takes no quantized types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.mlir.passes import QUANTIZED_OPS, run_pipeline
from hlo2onnx.mlir.quant.accumulators import merge_accumulators
from hlo2onnx.mlir.quant.types import Quantization, quantization_of, with_element
from hlo2onnx.mlir.quant.uniform_quantize import as_arithmetic
from hlo2onnx.mlir.walk import operations_of, values_of

QUANTIZE = "stablehlo.uniform_quantize"
DEQUANTIZE = "stablehlo.uniform_dequantize"


def is_quantized(module_operation: Any) -> bool:
    """Whether a value of the module has a quantized type."""
    return any(quantization_of(value.type) for value in values_of(module_operation))


# -- the module ---------------------------------------------------------------------------------


def quantized_to_calls(module_operation: Any) -> None:
    """Leaves, in place, integers, floats, and calls that convert between them."""
    _to_float_ops(module_operation)
    merge_accumulators(module_operation)
    _replace(module_operation, _as_call)
    _to_storage(module_operation)


def quantized_to_math(module_operation: Any) -> None:
    """Leaves, in place, integers, floats, and arithmetic that converts between them."""
    _to_float_ops(module_operation)
    _replace(module_operation, as_arithmetic)
    _to_storage(module_operation)


KEEPS_STORED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather", "all_reduce", "all_to_all", "bitcast_convert", "broadcast_in_dim", "case",
        "collective_broadcast", "collective_permute", "composite", "concatenate", "constant",
        "custom_call", "dynamic_broadcast_in_dim", "dynamic_gather", "dynamic_pad",
        "dynamic_reshape", "dynamic_slice", "dynamic_update_slice", "gather",
        "get_dimension_size", "get_tuple_element", "if", "map", "optimization_barrier", "pad",
        "real_dynamic_slice", "reduce", "reduce_scatter", "reduce_window", "reshape", "return",
        "reverse", "scatter", "select_and_scatter", "set_dimension_size", "slice", "sort",
        "transpose", "tuple", "uniform_dequantize", "uniform_quantize", "while",
    )
) | {"func.call", "func.return"}  # fmt: skip
"""Ops that hand on what is stored, or leave what is computed to a region."""


def _to_float_ops(module_operation: Any) -> None:
    """Makes every op that computes one on floats, between conversions."""
    run_pipeline(module_operation, QUANTIZED_OPS)
    for operation in operations_of(module_operation):
        values = (*operation.operands, *operation.results)
        if operation.name == QUANTIZE and quantization_of(operation.operands[0].type):
            operation.operands[0] = _dequantized(operation, operation.operands[0])
        elif operation.name not in KEEPS_STORED and any(quantization_of(v.type) for v in values):
            _wrap(operation)


def _wrap(operation: Any) -> None:
    """Puts conversions around an op."""
    for index, operand in enumerate(operation.operands):
        if quantization_of(operand.type):
            operation.operands[index] = _dequantized(operation, operand)
    for result in operation.results:
        if quantization_of(result.type):
            stored_type = result.type
            result.set_type(_expressed_type(stored_type))
            with ir.InsertionPoint.after(operation), operation.location:
                stored = ir.Operation.create(QUANTIZE, [stored_type], [result])
            result.replace_all_uses_except(stored.results[0], stored)


def _dequantized(before: Any, value: Any) -> Any:
    with ir.InsertionPoint(before), before.location:
        return ir.Operation.create(DEQUANTIZE, [_expressed_type(value.type)], [value]).results[0]


def _expressed_type(mlir_type: Any) -> Any:
    known = quantization_of(mlir_type)
    assert known is not None
    return with_element(mlir_type, known.expressed)


# -- conversions --------------------------------------------------------------------------------


def _replace(module_operation: Any, make: Callable[[Any, Quantization, bool], Any]) -> None:
    """Puts what `make` returns in the place of every conversion."""
    conversions = []
    for operation in operations_of(module_operation):
        if operation.name in (QUANTIZE, DEQUANTIZE):
            stores = operation.name == QUANTIZE
            known = quantization_of((operation.results if stores else operation.operands)[0].type)
            assert known is not None
            conversions.append((operation, known, stores))
    for operation, known, stores in conversions:
        result = operation.results[0]
        if any(True for _ in result.uses):
            with ir.InsertionPoint(operation), operation.location:
                result.replace_all_uses_with(make(operation, known, stores))
        operation.erase()


def _as_call(operation: Any, known: Quantization, stores: bool) -> Any:
    i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    configuration = {
        "scales": ir.DenseF64ArrayAttr.get(known.scales),
        "zero_points": ir.DenseI64ArrayAttr.get(known.zero_points),
        "low": ir.IntegerAttr.get(i64, known.low),
        "high": ir.IntegerAttr.get(i64, known.high),
    }
    if known.axis is not None:
        configuration["axis"] = ir.IntegerAttr.get(i64, known.axis)
    call = ir.Operation.create(
        "stablehlo.custom_call",
        [operation.results[0].type],
        [operation.operands[0]],
        {
            "call_target_name": ir.StringAttr.get(QUANTIZE if stores else DEQUANTIZE),
            "api_version": ir.IntegerAttr.get(i32, 4),
            "backend_config": ir.DictAttr.get(configuration),
        },
    )
    return call.results[0]


def _to_storage(module_operation: Any) -> None:
    """Gives every quantized value its storage type."""
    for value in list(values_of(module_operation)):
        known = quantization_of(value.type)
        if known is not None:
            value.set_type(with_element(value.type, known.storage))
    for operation in operations_of(module_operation):
        if operation.name == "stablehlo.constant":
            _store_constant(operation)
        elif operation.name == "func.func":
            update_signature(operation, _storage_type)


def _store_constant(operation: Any) -> None:
    """The literal of an unsigned quantized constant is signless; its bits are meant."""
    attribute, wanted = operation.attributes["value"], operation.results[0].type
    if attribute.type != wanted:
        tensor = ir.RankedTensorType(wanted)
        array = np.array(attribute)
        bits = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "i" else array
        with operation.context:
            operation.attributes["value"] = ir.DenseElementsAttr.get(
                np.ascontiguousarray(bits), type=tensor.element_type, shape=tensor.shape
            )


def _storage_type(mlir_type: Any) -> Any:
    known = quantization_of(mlir_type)
    return mlir_type if known is None else with_element(mlir_type, known.storage)


def update_signature(function: Any, changed: Callable[[Any], Any]) -> None:
    """Changes, in place, the types of a function's arguments and results."""
    old = function.attributes["function_type"].value
    inputs, results = ([changed(item) for item in side] for side in (old.inputs, old.results))
    with function.context:
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
