"""Expands uniform_quantize and uniform_dequantize into StableHLO."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir

from hlo2onnx.mlir.quant.types import Quantization, with_element
from hlo2onnx.mlir.values import made
from hlo2onnx.mlir.walk import MlirValue


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
