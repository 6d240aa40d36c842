"""Removes the requantization of the 32-bit accumulators of quantized dots and convolutions."""

from __future__ import annotations

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.quant.types import quantization_of
from hlo2onnx.mlir.values import defining_operation
from hlo2onnx.mlir.walk import MlirValue, operations_of

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
