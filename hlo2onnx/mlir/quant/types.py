"""Quantized element types, `!quant.uniform`."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError
from hlo2onnx.mlir.values import defining_operation
from hlo2onnx.mlir.walk import MlirValue


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
    """The quantization of a type; None if it is no quantized tensor."""
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
