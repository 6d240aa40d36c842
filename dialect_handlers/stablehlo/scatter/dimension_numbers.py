"""A scatter's dimension numbers, sorted by what happens to each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxlib.mlir.dialects import stablehlo

from dialect_handlers.common.dimension_numbers import (
    Axis,
    Batch,
    WindowDimensions,
    arranged,
    batch_axes,
    batch_extents,
)
from hlo2onnx.ir.dims import is_static, product
from hlo2onnx.ir.values import Dim


@dataclass(frozen=True)
class ScatterDimensions(WindowDimensions):
    """The role of every axis in a scatter.

    Attributes:
        columns: For an operand axis, the position of its start in the index vector; other axes
            start at 0.
    """

    columns: dict[int, int]

    @property
    def free(self) -> list[int]:
        """Batch axes along which windows may overlap: all without a batching axis."""
        return [axis for axis in range(len(self.batch)) if axis not in self.batching.values()]

    @property
    def is_alone(self) -> bool:
        """Whether no two windows can meet because there is one for each batch of the operand."""
        return product(self.batch[axis] for axis in self.free) == 1

    @property
    def is_static(self) -> bool:
        """Whether every extent is a number."""
        return is_static((*self.dims, *self.sizes, *self.batch))

    @property
    def partial(self) -> list[int]:
        """Operand axes that a window does not cover, without batching axes."""
        return [
            axis
            for axis, (dim, size) in enumerate(zip(self.dims, self.sizes, strict=True))
            if size != dim and axis not in self.batching
        ]

    @property
    def indexed(self) -> list[int]:
        """Operand axes along which an element's place depends on the batch or on its window."""
        return sorted({*self.partial, *self.batching})

    @property
    def depth(self) -> int:
        """Operand axes up to the last indexed one; the rest are whole rows."""
        return self.indexed[-1] + 1 if self.indexed else 0

    @property
    def window_order(self) -> list[Axis]:
        """The axes of the updates, in the order of one window after another."""
        first: list[Axis] = [Batch(axis) for axis in self.free]
        return [*first, *(axis for axis in self.windows if axis not in first)]

    @property
    def batch_order(self) -> list[int]:
        """The batch axes in the order of the operand's axes that run along them, others first."""
        return [*self.free, *(self.batching[axis] for axis in sorted(self.batching))]

    @property
    def batch_dims(self) -> list[Dim]:
        """The operand's extents along its batching axes, 1 along others."""
        return [dim if axis in self.batching else 1 for axis, dim in enumerate(self.dims)]

    def runs_along(self, axis: Axis) -> int:
        """The axis of the operand that an axis of the updates runs along; -1 for none."""
        along = {run: operand for operand, run in self.batching.items()}
        return along.get(axis.axis, -1) if isinstance(axis, Batch) else axis.axis

    @property
    def strides(self) -> list[Dim]:
        """Elements from one index to the next along each operand axis."""
        return [product(self.dims[axis + 1 :]) for axis in range(len(self.dims))]

    @property
    def scatters_leading_rows(self) -> bool:
        """Whether windows are whole rows after the first axes, and start along exactly these."""
        leading = list(range(len(self.partial)))
        one_row = all(self.sizes[axis] == 1 for axis in leading)
        return bool(leading) and self.indexed == leading == sorted(self.columns) and one_row

    @property
    def scatters_rows_of_batches(self) -> bool:
        """The same for an operand whose first axes are batching axes, too."""
        leading = list(range(self.depth))
        one_row = all(self.sizes[axis] == 1 for axis in self.partial)
        rows = sorted(self.columns) == self.partial and self.indexed == leading
        return bool(self.partial) and rows and one_row

    @property
    def overlaps_shifted(self) -> bool:
        """Whether windows can meet in elements that have different places in each."""
        return any(self.sizes[axis] != 1 and axis in self.columns for axis in self.partial)


def read_numbers(
    numbers: stablehlo.ScatterDimensionNumbers,
    operand: Sequence[Dim],
    indices: Sequence[Dim],
    updates: Sequence[Dim],
) -> ScatterDimensions:
    """Sorts the axes of a scatter.

    Args:
        numbers: The dimension numbers, as the bindings give them.
        operand: Extents of the operand.
        indices: Extents of the scatter indices.
        updates: Extents of the updates.
    """
    vector = numbers.index_vector_dim
    inner = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    kept = [axis for axis in range(len(operand)) if axis not in inner]
    windows = dict(zip(numbers.update_window_dims, kept, strict=True))
    sizes: list[Dim] = [1] * len(operand)
    for position, axis in windows.items():
        sizes[axis] = updates[position]
    along = batch_axes(numbers.scatter_indices_batching_dims, vector)
    return ScatterDimensions(
        dims=tuple(operand),
        sizes=tuple(sizes),
        batch=batch_extents(indices, vector),
        batching=dict(zip(numbers.input_batching_dims, along, strict=True)),
        windows=arranged(len(updates), windows),
        columns={
            axis: column for column, axis in enumerate(numbers.scattered_dims_to_operand_dims)
        },
    )
