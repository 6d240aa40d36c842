"""Expands uniform_quantize and uniform_dequantize into StableHLO."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir

from hlo2onnx.mlir.quant.types import Quantization, with_element
from hlo2onnx.mlir.walk import Value


def as_arithmetic(operation: ir.Operation, known: Quantization, stores: bool) -> Value:
    """Makes the value of a conversion at the insertion point.

    uniform_quantize(x) = convert(round_nearest_even(clamp(low, x / scale + zero_point, high)))
    uniform_dequantize(q) = convert(convert(q to i32) - zero_point) * scale
    """
    x = operation.operands[0]
    if stores:
        scale = _parameter(x.type, known, known.scales)
        y = _op("divide", x.type, x, scale)
        y = _op("add", x.type, y, _parameter(x.type, known, known.zero_points))
        low, high = (_splat(x.type, bound) for bound in (known.low, known.high))
        y = _op("round_nearest_even", x.type, _op("clamp", x.type, low, y, high))
        return _op("convert", with_element(x.type, known.storage), y)
    wide, result = with_element(x.type, "i32"), operation.results[0].type
    # The operand keeps its quantized type until all conversions are replaced.
    y = _op("convert", wide, _op("bitcast_convert", with_element(x.type, known.storage), x))
    y = _op("subtract", wide, y, _parameter(wide, known, known.zero_points))
    y = _op("convert", result, y)
    return _op("multiply", result, y, _parameter(result, known, known.scales))


def _op(name: str, mlir_type: ir.Type, *operands: Value) -> Value:
    return ir.Operation.create(f"stablehlo.{name}", [mlir_type], list(operands)).result


def _splat(like: ir.Type, number: float) -> Value:
    return _parameter(like, None, (number,))


def _parameter(like: ir.Type, known: Quantization | None, numbers: Sequence[float]) -> Value:
    """A parameter of every slice along the quantized axis, as a tensor of the type of `like`."""
    axis = None if known is None else known.axis
    element = ir.RankedTensorType(like).element_type
    is_float = isinstance(element, ir.FloatType)
    # MLIR does not parse 1e-05: numbers need a point.
    literals = [f"{number:.17e}" if is_float else str(int(number)) for number in numbers]
    shape = [] if axis is None else [len(numbers)]
    given = ir.RankedTensorType.get(shape, element)
    body = literals[0] if axis is None else f"[{', '.join(literals)}]"
    constant = ir.Operation.create(
        "stablehlo.constant",
        [given],
        attributes={"value": ir.Attribute.parse(f"dense<{body}> : {given}")},
    )
    dims = ir.DenseI64ArrayAttr.get([] if axis is None else [axis])
    return ir.Operation.create(
        "stablehlo.broadcast_in_dim",
        [like],
        [constant.result],
        {"broadcast_dimensions": dims},
    ).result
