"""A gather's dimension numbers, sorted by what happens to each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hlo2onnx.ir.dims import difference, product
from hlo2onnx.ir.values import Dim
from hlo2onnx.limitations import unsupported


@dataclass(frozen=True)
class Batch:
    """The axis of a tensor that runs over axis `axis` of the batch of start indices."""

    axis: int


@dataclass(frozen=True)
class Offset:
    """The axis of a tensor that runs over the slices along axis `axis` of the operand."""

    axis: int


Axis = Batch | Offset


@dataclass(frozen=True)
class Numbers:
    """What a gather does along every axis.

    Attributes:
        dims: Extents of the operand.
        sizes: Extents of a slice.
        batch: Extents of the start indices without the index vector.
        moving: Operand axes along which slices start anywhere, ascending. The others are either
            batching axes or cut at `sizes`: a slice as long as its axis always starts at 0.
        columns: Where the index vector holds the start along each moving axis.
        batching: The batch axis that each batching axis of the operand runs along; those of
            extent 1 are left out, since nothing runs along them.
        result: What each axis of the result runs over.
    """

    dims: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    batch: tuple[Dim, ...]
    moving: tuple[int, ...]
    columns: tuple[int, ...]
    batching: dict[int, int]
    result: tuple[Axis, ...]

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

    def extent(self, axis: Axis) -> Dim:
        """The extent of such an axis in the result."""
        return self.batch[axis.axis] if isinstance(axis, Batch) else self.sizes[axis.axis]


def read_numbers(
    numbers: Any, sizes: Sequence[Dim], operand: Sequence[Dim], starts: Sequence[Dim]
) -> Numbers:
    """Sorts the axes of a gather.

    Args:
        numbers: The dimension numbers, as the bindings give them.
        operand: Extents of the operand.
        starts: Extents of the start indices.

    Raises:
        UnsupportedOp: An empty slice is to give an element.
    """
    vector = numbers.index_vector_dim
    batch = [extent for axis, extent in enumerate(starts) if axis != vector]
    # The index vector does not count among the batch axes.
    batch_axes = [axis - (axis > vector) for axis in numbers.start_indices_batching_dims]
    inner = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    if any(sizes[axis] == 0 for axis in inner) and 0 not in batch:
        raise unsupported("collapsed nothing")
    starts_at = {axis: column for column, axis in enumerate(numbers.start_index_map)}
    moving = [axis for axis in sorted(starts_at) if sizes[axis] != operand[axis]]
    batching = zip(numbers.operand_batching_dims, batch_axes, strict=True)
    return Numbers(
        tuple(operand),
        tuple(sizes),
        tuple(batch),
        tuple(moving),
        tuple(starts_at[axis] for axis in moving),
        {axis: along for axis, along in batching if batch[along] != 1},
        _result(len(batch), numbers.offset_dims, [a for a in range(len(sizes)) if a not in inner]),
    )


def _result(batch_rank: int, offset_dims: Sequence[int], kept: Sequence[int]) -> tuple[Axis, ...]:
    offsets = dict(zip(offset_dims, kept, strict=True))
    batches = iter(range(batch_rank))
    return tuple(
        Offset(offsets[position]) if position in offsets else Batch(next(batches))
        for position in range(batch_rank + len(kept))
    )
