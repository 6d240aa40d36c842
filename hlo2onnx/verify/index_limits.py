"""The ranges of the indices of gather, scatter and dynamic slices."""

from __future__ import annotations

from typing import NamedTuple

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.types import shape_of


class Indices(NamedTuple):
    """An operand of indices.

    Attributes:
        operand: Its place among the operands.
        limits: The largest valid index of each component.
        axis: The axis of the components; None if the operand has one component.
    """

    operand: int
    limits: tuple[int, ...]
    axis: int | None


def indices_of(operation: ir.Operation) -> list[Indices]:
    """The operands of an op that are indices into another operand."""
    name = operation.name
    if name == "stablehlo.gather":
        return [_of_gather(operation)]
    if name == "stablehlo.scatter":
        return [_of_scatter(operation)]
    if name == "stablehlo.dynamic_slice":
        return _of_slices(operation, 1, shape_of(operation.results[0].type))
    if name == "stablehlo.dynamic_update_slice":
        return _of_slices(operation, 2, shape_of(operation.operands[1].type))
    return []


def _of_slices(operation: ir.Operation, first: int, sizes: tuple[int | None, ...]) -> list[Indices]:
    extents = shape_of(operation.operands[0].type)
    return [
        Indices(first + axis, ((extent or 0) - (size or 0),), None)
        for axis, (extent, size) in enumerate(zip(extents, sizes, strict=True))
    ]


def _of_gather(operation: ir.Operation) -> Indices:
    numbers = to_python(operation.attributes["dimension_numbers"])
    sizes = to_python(operation.attributes["slice_sizes"])
    extents = shape_of(operation.operands[0].type)
    limits = tuple((extents[dim] or 0) - sizes[dim] for dim in numbers.start_index_map)
    return Indices(1, limits, _component_axis(operation, 1, numbers.index_vector_dim))


def _of_scatter(operation: ir.Operation) -> Indices:
    numbers = to_python(operation.attributes["scatter_dimension_numbers"])
    count = (len(operation.operands) - 1) // 2
    extents = shape_of(operation.operands[0].type)
    updates = shape_of(operation.operands[count + 1].type)
    absent = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    window_dims = [dim for dim in range(len(extents)) if dim not in absent]
    pairs = zip(window_dims, numbers.update_window_dims, strict=True)
    windows = {dim: updates[place] or 0 for dim, place in pairs}
    limits = tuple(
        (extents[dim] or 0) - windows.get(dim, 1) for dim in numbers.scattered_dims_to_operand_dims
    )
    return Indices(count, limits, _component_axis(operation, count, numbers.index_vector_dim))


def _component_axis(operation: ir.Operation, operand: int, axis: int) -> int | None:
    return axis if axis < len(shape_of(operation.operands[operand].type)) else None
