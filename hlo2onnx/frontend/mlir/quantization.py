"""Replaces quantized types by integers and custom calls that keep scale and zero point."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo2onnx.errors import LoadError
from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.constants import bits_of
from hlo2onnx.frontend.mlir.functions import function_type, set_function_type
from hlo2onnx.frontend.mlir.passes import QUANTIZED_OPS, run_pipeline
from hlo2onnx.frontend.mlir.types import is_complex
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    defining_operation,
    dense,
    is_used,
    made,
    made_call,
    operations_of,
    replace_uses_but,
    types_in,
    values_of,
)

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
    to_storage(module_operation, _storage_type)


def quantized_to_math(module_operation: ir.Operation) -> None:
    """Replaces quantized types, in place, by integers, floats, and arithmetic between them."""
    _to_float_ops(module_operation)
    _replace(module_operation, as_arithmetic)
    to_storage(module_operation, _storage_type)


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


def to_storage(module_operation: ir.Operation, storage_type: Callable[[ir.Type], ir.Type]) -> None:
    """Gives every value, in place, the type in which it is stored. Constants keep their bits."""
    for value in list(values_of(module_operation)):
        stored = storage_type(value.type)
        if stored != value.type:
            value.set_type(stored)
    for operation in operations_of(module_operation):
        if operation.name == "func.func":
            old = function_type(operation)
            types = [list(map(storage_type, types)) for types in (old.inputs, old.results)]
            set_function_type(operation, *types)
        elif operation.name == "stablehlo.constant":
            wanted = operation.results[0].type
            if not is_complex(wanted) and operation.attributes["value"].type != wanted:
                operation.attributes["value"] = dense(bits_of(operation), wanted)


def _storage_type(mlir_type: ir.Type) -> ir.Type:
    known = quantization_of(mlir_type)
    return mlir_type if known is None else with_element(mlir_type, known.storage)


@dataclass(frozen=True)
class Quantization:
    """A quantized element type: value = (stored - zero point) * scale.

    Attributes:
        storage: Element type of the stored integers, "i8" or "ui8".
        low, high: Bounds of the stored integers.
        expressed: Element type of the values, "f32".
        scales, zero_points: One of each, or one for each index along `axis`.
        axis: None if all elements share one scale.
    """

    storage: str
    low: int
    high: int
    expressed: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None


_TYPE = re.compile(
    r"!quant\.uniform<(?P<sign>[iu])(?P<bits>\d+)(?:<(?P<low>-?\d+):(?P<high>-?\d+)>)?"
    r":(?P<expressed>\w+)(?::(?P<axis>\d+))?, \{?(?P<parameters>[^{}]*)\}?>"
)


@functools.lru_cache(maxsize=1024)
def parse_quantization(text: str) -> Quantization | None:
    """Reads an element type. Returns None if it is not quantized.

    Raises:
        LoadError: It is quantized in blocks, or its parameters are unknown.
    """
    if not text.startswith("!quant."):
        return None
    match = _TYPE.fullmatch(text)
    if match is None:
        raise LoadError(
            f"the element type {text} is not quantized per tensor or per axis, with parameters"
        )
    bits, signed = int(match["bits"]), match["sign"] == "i"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    pairs = [item.strip().partition(":") for item in match["parameters"].split(",")]
    return Quantization(
        f"{'' if signed else 'u'}i{bits}",
        int(match["low"] or low),
        int(match["high"] or high),
        match["expressed"],
        tuple(float(scale) for scale, _, _ in pairs),
        tuple(int(zero or 0) for _, _, zero in pairs),
        None if match["axis"] is None else int(match["axis"]),
    )


def quantization_of(mlir_type: ir.Type) -> Quantization | None:
    """The quantization of a type; None if it is not a quantized tensor."""
    if not isinstance(mlir_type, ir.RankedTensorType):
        return None
    element = ir.RankedTensorType(mlir_type).element_type
    if isinstance(element, ir.IntegerType | ir.FloatType | ir.ComplexType):
        return None
    return parse_quantization(str(element))


def with_element(mlir_type: ir.Type, element: str) -> ir.RankedTensorType:
    """A tensor type of the same shape with another element type."""
    tensor = ir.RankedTensorType(mlir_type)
    with mlir_type.context, ir.Location.unknown():
        return ir.RankedTensorType.get(tensor.shape, ir.Type.parse(element), tensor.encoding)


def stored_element(element: str) -> str:
    """The spelling of an element type; of the storage type if it is quantized."""
    known = parse_quantization(element)
    return element if known is None else known.storage


def step_of(value: MlirValue) -> float:
    """The distance between neighbouring numbers of a value.

    1 for a quantized value, the (largest) scale for a result of uniform_dequantize, 0 for others.
    """
    if quantization_of(value.type) is not None:
        return 1.0
    maker = defining_operation(value)
    if maker is None or maker.name != "stablehlo.uniform_dequantize":
        return 0.0
    known = quantization_of(maker.operands[0].type)
    return 0.0 if known is None else max(known.scales)


Grid = tuple[tuple[float, ...], int | None]
"""Scales, and the axis along which there are several."""


def merge_accumulators(module_operation: ir.Operation) -> None:
    """dequantize(quantize(y)) -> y, if y is stored in 32 bits and is a multiple of its scale.

    A quantized dot or convolution accumulates in 32 bits, at the product of its operands' scales,
    before it is quantized to fewer bits. As a float, its value is a multiple of that product, up to
    float rounding.
    """
    for operation in operations_of(module_operation):
        if operation.name != "stablehlo.uniform_dequantize":
            continue
        maker = defining_operation(operation.operands[0])
        known = quantization_of(operation.operands[0].type)
        if (
            maker is None
            or maker.name != "stablehlo.uniform_quantize"
            or known is None
            or known.storage != "i32"
        ):
            continue
        found = _grid(maker.operands[0])
        if found is not None and _same_grid(found, (known.scales, known.axis)):
            operation.results[0].replace_all_uses_with(maker.operands[0])
            operation.erase()


def _grid(value: MlirValue) -> Grid | None:
    """The scales that a float value is a multiple of; None if they are unknown."""
    maker = defining_operation(value)
    if maker is None:
        return None
    if maker.name == "stablehlo.uniform_dequantize":
        known = quantization_of(maker.operands[0].type)
        assert known is not None
        return known.scales, known.axis
    if maker.name == "stablehlo.broadcast_in_dim":
        return _broadcast_grid(maker, _grid(maker.operands[0]))
    grids = [_grid(operand) for operand in maker.operands]
    if maker.name == "stablehlo.add" and grids[0] and grids[1]:
        return grids[0] if _same_grid(grids[0], grids[1]) else None
    if maker.name in ("stablehlo.dot_general", "stablehlo.convolution") and grids[0] and grids[1]:
        return _product_grid(maker, grids[0], grids[1])
    return None


def _broadcast_grid(operation: ir.Operation, grid: Grid | None) -> Grid | None:
    if grid is None or grid[1] is None:
        return grid
    return grid[0], to_python(operation.attributes["broadcast_dimensions"])[grid[1]]


def _product_grid(operation: ir.Operation, lhs: Grid, rhs: Grid) -> Grid | None:
    if lhs[1] is not None:
        return None
    scales = tuple(lhs[0][0] * scale for scale in rhs[0])
    if rhs[1] is None:
        return scales, None
    if operation.name == "stablehlo.convolution":
        numbers = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
        is_output = rhs[1] == numbers.kernel_output_feature_dimension
        return (scales, numbers.output_feature_dimension) if is_output else None
    numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    rank = len(ir.RankedTensorType(operation.operands[1].type).shape)
    gone = [*numbers.rhs_batching_dimensions, *numbers.rhs_contracting_dimensions]
    free = [axis for axis in range(rank) if axis not in gone]
    if rhs[1] not in free:
        return None
    result_rank = len(ir.RankedTensorType(operation.results[0].type).shape)
    return scales, result_rank - len(free) + free.index(rhs[1])


def _same_grid(first: Grid, second: Grid) -> bool:
    return (
        first[1] == second[1]
        and len(first[0]) == len(second[0])
        and bool(np.allclose(first[0], second[0], rtol=1e-6, atol=0))
    )


def as_arithmetic(operation: ir.Operation, known: Quantization, stores: bool) -> MlirValue:
    """Makes the value of a conversion at the insertion point.

    uniform_quantize(x) = convert(round_nearest_even(clamp(low, x / scale + zero_point, high)))
    uniform_dequantize(q) = convert(convert(q to i32) - zero_point) * scale
    """
    x = operation.operands[0]
    if stores:
        scale = _parameter(x.type, known, known.scales)
        y = made("divide", x.type, x, scale)
        y = made("add", x.type, y, _parameter(x.type, known, known.zero_points))
        low, high = (_splat(x.type, bound) for bound in (known.low, known.high))
        y = made("round_nearest_even", x.type, made("clamp", x.type, low, y, high))
        return made("convert", with_element(x.type, known.storage), y)
    wide, result = with_element(x.type, "i32"), operation.results[0].type
    # The operand keeps its quantized type until all conversions are replaced.
    y = made("convert", wide, made("bitcast_convert", with_element(x.type, known.storage), x))
    y = made("subtract", wide, y, _parameter(wide, known, known.zero_points))
    y = made("convert", result, y)
    return made("multiply", result, y, _parameter(result, known, known.scales))


def _splat(like: ir.Type, number: float) -> MlirValue:
    return _parameter(like, None, (number,))


def _parameter(like: ir.Type, known: Quantization | None, numbers: Sequence[float]) -> MlirValue:
    """A parameter of every slice along the quantized axis, as a tensor of the type of `like`."""
    axis = None if known is None else known.axis
    element = ir.RankedTensorType(like).element_type
    is_float = isinstance(element, ir.FloatType)
    # MLIR does not parse 1e-05: numbers need a point.
    literals = [f"{number:.17e}" if is_float else str(int(number)) for number in numbers]
    shape = [] if axis is None else [len(numbers)]
    given = ir.RankedTensorType.get(shape, element)
    body = literals[0] if axis is None else f"[{', '.join(literals)}]"
    constant = made("constant", given, value=ir.Attribute.parse(f"dense<{body}> : {given}"))
    dims = ir.DenseI64ArrayAttr.get([] if axis is None else [axis])
    return made("broadcast_in_dim", like, constant, broadcast_dimensions=dims)
