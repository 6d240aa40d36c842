"""Replaces quantized types, `!quant.uniform`, by the integers that store them.

Values get their storage type. Ops that compute do it in floats, between calls of `QUANTIZE` and
`DEQUANTIZE`, or for XLA, which takes no quantized types, between the arithmetic of these calls.
Later stages do not know quantized types.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxlib.mlir import ir

from hlo2onnx.mlir.functions import function_type, set_function_type
from hlo2onnx.mlir.passes import QUANTIZED_OPS, run_pipeline
from hlo2onnx.mlir.quant.accumulators import merge_accumulators
from hlo2onnx.mlir.quant.types import Quantization, quantization_of, with_element
from hlo2onnx.mlir.quant.uniform_quantize import as_arithmetic
from hlo2onnx.mlir.values import dense, integers_of, made, made_call, replace_uses_but
from hlo2onnx.mlir.walk import MlirValue, is_used, operations_of, types_in, values_of

QUANTIZE = "stablehlo.uniform_quantize"
DEQUANTIZE = "stablehlo.uniform_dequantize"


def is_quantized(module_operation: ir.Operation) -> bool:
    """Whether a value of the module has a quantized type."""
    return any(map(quantization_of, types_in(module_operation)))


# -- the module ---------------------------------------------------------------------------------


def quantized_to_calls(module_operation: ir.Operation) -> None:
    """Replaces quantized types, in place, by integers, floats, and calls that convert them."""
    _to_float_ops(module_operation)
    merge_accumulators(module_operation)
    _replace(module_operation, _as_call)
    _to_storage(module_operation)


def quantized_to_math(module_operation: ir.Operation) -> None:
    """Replaces quantized types, in place, by integers, floats, and arithmetic between them."""
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
"""Ops that move stored elements, or whose regions compute."""


def _to_float_ops(module_operation: ir.Operation) -> None:
    """Makes every op that computes do it in floats, between conversions."""
    run_pipeline(module_operation, QUANTIZED_OPS)
    for operation in operations_of(module_operation):
        values = (*operation.operands, *operation.results)
        if operation.name == QUANTIZE and quantization_of(operation.operands[0].type):
            operation.operands[0] = _dequantized(operation, operation.operands[0])
        elif operation.name not in KEEPS_STORED and any(quantization_of(v.type) for v in values):
            _wrap(operation)


def _wrap(operation: ir.Operation) -> None:
    """Puts conversions around an op."""
    for index, operand in enumerate(operation.operands):
        if quantization_of(operand.type):
            operation.operands[index] = _dequantized(operation, operand)
    for result in operation.results:
        if quantization_of(result.type):
            stored_type = result.type
            result.set_type(_expressed_type(stored_type))
            with ir.InsertionPoint.after(operation), operation.location:
                replace_uses_but(result, made("uniform_quantize", stored_type, result))


def _dequantized(before: ir.Operation, value: MlirValue) -> MlirValue:
    with ir.InsertionPoint(before), before.location:
        return made("uniform_dequantize", _expressed_type(value.type), value)


def _expressed_type(mlir_type: ir.Type) -> ir.Type:
    known = quantization_of(mlir_type)
    assert known is not None
    return with_element(mlir_type, known.expressed)


# -- conversions --------------------------------------------------------------------------------


def _replace(
    module_operation: ir.Operation, make: Callable[[ir.Operation, Quantization, bool], MlirValue]
) -> None:
    """Replaces every conversion by the value that `make` returns."""
    conversions = []
    for operation in operations_of(module_operation):
        if operation.name in (QUANTIZE, DEQUANTIZE):
            stores = operation.name == QUANTIZE
            known = quantization_of((operation.results if stores else operation.operands)[0].type)
            assert known is not None
            conversions.append((operation, known, stores))
    for operation, known, stores in conversions:
        result = operation.results[0]
        if is_used(result):
            with ir.InsertionPoint(operation), operation.location:
                result.replace_all_uses_with(make(operation, known, stores))
        operation.erase()


def _as_call(operation: ir.Operation, known: Quantization, stores: bool) -> MlirValue:
    i64 = ir.IntegerType.get_signless(64)
    configuration: dict[str, ir.Attribute] = {
        "scales": ir.DenseF64ArrayAttr.get(known.scales),
        "zero_points": ir.DenseI64ArrayAttr.get(known.zero_points),
        "low": ir.IntegerAttr.get(i64, known.low),
        "high": ir.IntegerAttr.get(i64, known.high),
    }
    if known.axis is not None:
        configuration["axis"] = ir.IntegerAttr.get(i64, known.axis)
    target, result_type = QUANTIZE if stores else DEQUANTIZE, operation.results[0].type
    return made_call(target, result_type, operation.operands[0], **configuration)


def _to_storage(module_operation: ir.Operation) -> None:
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


def _store_constant(operation: ir.Operation) -> None:
    """Keeps the bits. The literal of an unsigned quantized constant is signless."""
    wanted = operation.results[0].type
    if operation.attributes["value"].type != wanted:
        array = integers_of(operation)
        bits = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "i" else array
        operation.attributes["value"] = dense(bits, wanted)


def _storage_type(mlir_type: ir.Type) -> ir.Type:
    known = quantization_of(mlir_type)
    return mlir_type if known is None else with_element(mlir_type, known.storage)


def update_signature(function: ir.Operation, changed: Callable[[ir.Type], ir.Type]) -> None:
    """Changes, in place, the types of a function's arguments and results."""
    old = function_type(function)
    set_function_type(function, list(map(changed, old.inputs)), list(map(changed, old.results)))
