"""Dimension numbers of gather and scatter: what each axis of a tensor of windows runs over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxlib.mlir.dialects import stablehlo

from hlo2onnx.ir.dims import difference, is_static, product
from hlo2onnx.ir.values import Dim
from hlo2onnx.limitations import unsupported


@dataclass(frozen=True)
class Batch:
    """An axis that runs over axis `axis` of the batch of windows."""

    axis: int


@dataclass(frozen=True)
class Window:
    """An axis that runs along axis `axis` of the operand, within a window."""

    axis: int


Axis = Batch | Window


@dataclass(frozen=True)
class WindowDimensions:
    """Windows of an operand, one for each index vector.

    Attributes:
        dims: Extents of the operand.
        sizes: Extents of a window.
        batch: Extents of the indices without the index vector.
        batching: By batching axis of the operand, the batch axis that it runs along.
        windows: What each axis of the tensor of windows runs over: of a gather's result, or of a
            scatter's updates.
    """

    dims: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    batch: tuple[Dim, ...]
    batching: dict[int, int]
    windows: tuple[Axis, ...]

    def extent(self, axis: Axis) -> Dim:
        """The extent of such an axis in the tensor of windows."""
        return self.batch[axis.axis] if isinstance(axis, Batch) else self.sizes[axis.axis]

    def extents(self, axes: Sequence[Axis]) -> list[Dim]:
        """The extents of such axes in the tensor of windows."""
        return [self.extent(axis) for axis in axes]


def batch_extents(indices: Sequence[Dim], vector: int) -> tuple[Dim, ...]:
    """The extents of indices without the index vector, which is along this axis."""
    return tuple(extent for axis, extent in enumerate(indices) if axis != vector)


def batch_axes(axes: Sequence[int], vector: int) -> list[int]:
    """Axes of the indices as batch axes: the index vector does not count."""
    return [axis - (axis > vector) for axis in axes]


def arranged(rank: int, windows: Mapping[int, int]) -> tuple[Axis, ...]:
    """What each axis of a tensor of windows runs over.

    Args:
        rank: Of the tensor.
        windows: By axis of the tensor, the axis of the operand that it runs along. The others are
            the batch axes, in order.
    """
    batches = iter(range(rank - len(windows)))
    return tuple(
        Window(windows[axis]) if axis in windows else Batch(next(batches)) for axis in range(rank)
    )


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
        """Whether windows are whole rows of the first axis, and start along this one only."""
        return self.indexed == [0] == sorted(self.columns) == self.partial and self.sizes[0] == 1

    @property
    def overlaps_shifted(self) -> bool:
        """Whether windows can meet in elements that have different places in each."""
        return any(self.sizes[axis] != 1 and axis in self.columns for axis in self.partial)


def scatter_dimensions(
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


def gather_dimensions(
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
