"""A gather's dimension numbers, sorted by what happens to each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxlib.mlir.dialects import stablehlo

from dialect_handlers.common.dimension_numbers import (
    WindowDimensions,
    arranged,
    batch_axes,
    batch_extents,
)
from hlo2onnx.ir.dims import difference, product
from hlo2onnx.ir.values import Dim
from hlo2onnx.limitations import unsupported


@dataclass(frozen=True)
class GatherDimensions(WindowDimensions):
    """The role of every axis in a gather. A batching axis of extent 1 is not in `batching`.

    Attributes:
        moving: Operand axes along which slices start anywhere, ascending. Other axes are batching
            axes or cut at `sizes`: a slice as long as its axis always starts at 0.
        columns: The position of each moving axis' start in the index vector.
    """

    moving: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def limits(self) -> list[Dim]:
        """The last start along each moving axis."""
        return [difference(self.dims[axis], self.sizes[axis]) for axis in self.moving]

    @property
    def windowed(self) -> list[int]:
        """Moving axes along which a slice has more than one element."""
        return [axis for axis in self.moving if self.sizes[axis] != 1]

    @property
    def still(self) -> list[int]:
        """Operand axes of which every slice holds the same stretch, from 0 on."""
        return [
            axis
            for axis in range(len(self.dims))
            if axis not in self.moving and axis not in self.batching
        ]

    @property
    def is_single(self) -> bool:
        """Whether there is one slice."""
        return product(self.batch) == 1

    @property
    def leads(self) -> bool:
        """Whether the moving axes are the operand's first."""
        return self.moving == tuple(range(len(self.moving)))

    @property
    def is_adjacent(self) -> bool:
        """Whether the moving axes are neighbours."""
        return self.moving[-1] - self.moving[0] == len(self.moving) - 1


def read_numbers(
    numbers: stablehlo.GatherDimensionNumbers,
    sizes: Sequence[Dim],
    operand: Sequence[Dim],
    starts: Sequence[Dim],
) -> GatherDimensions:
    """Sorts the axes of a gather.

    Args:
        numbers: The dimension numbers, as the bindings give them.
        operand: Extents of the operand.
        starts: Extents of the start indices.

    Raises:
        UnsupportedOp: An empty slice is to give an element.
    """
    vector = numbers.index_vector_dim
    batch = batch_extents(starts, vector)
    inner = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    if any(sizes[axis] == 0 for axis in inner) and 0 not in batch:
        raise unsupported("collapsed nothing")
    starts_at = {axis: column for column, axis in enumerate(numbers.start_index_map)}
    moving = [axis for axis in sorted(starts_at) if sizes[axis] != operand[axis]]
    along = batch_axes(numbers.start_indices_batching_dims, vector)
    batching = zip(numbers.operand_batching_dims, along, strict=True)
    kept = [axis for axis in range(len(sizes)) if axis not in inner]
    return GatherDimensions(
        dims=tuple(operand),
        sizes=tuple(sizes),
        batch=batch,
        batching={axis: place for axis, place in batching if batch[place] != 1},
        windows=arranged(len(batch) + len(kept), dict(zip(numbers.offset_dims, kept, strict=True))),
        moving=tuple(moving),
        columns=tuple(starts_at[axis] for axis in moving),
    )
