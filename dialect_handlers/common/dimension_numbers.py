"""Dimension numbers of gather and scatter: what each axis of a tensor of windows runs over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hlo2onnx.ir.values import Dim


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
