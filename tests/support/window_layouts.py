"""Random dimension numbers, which gather and scatter share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

Dims = tuple[int, ...]


@dataclass(frozen=True)
class WindowLayout:
    """Windows of an operand.

    Attributes:
        operand: Extents of the operand.
        sizes: Extents of a window; 1 along dropped and batching axes.
        indices: Extents of the indices.
        windows: Extents of the tensor of windows: a gather's result, or a scatter's updates.
        indexed: The axes of the operand that an index vector is for.
        vector: The axis of the index vectors.
        kept: The axes of the tensor of windows that run along a window.
        dropped: The axes of the operand that the tensor of windows lacks.
        batching: Pairs of batching axes, of the operand and of the indices.
    """

    operand: Dims
    sizes: Dims
    indices: Dims
    windows: Dims
    indexed: Dims
    vector: int
    kept: Dims
    dropped: Dims
    batching: tuple[tuple[int, int], ...]


@st.composite
def window_layouts(draw: st.DrawFn) -> WindowLayout:
    """Any layout of up to four axes of the operand, and three of the batch."""

    def some(items: Sequence[int], least: int, most: int) -> list[int]:
        return list(draw(st.permutations(items))[: draw(st.integers(min(least, most), most))])

    rank, batch_rank = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    extents = st.sampled_from([1, 2, 3, 4, 4, 5])
    batch = [draw(extents) for _ in range(batch_rank)]
    along = some(range(batch_rank), 0, min(batch_rank, rank - 1))
    batching = sorted(draw(st.permutations(range(rank)))[: len(along)])
    free = [axis for axis in range(rank) if axis not in batching]
    indexed = some(free, 1, len(free))
    dropped = [axis for axis in free if draw(st.booleans())]
    operand = [draw(extents) for _ in range(rank)]
    for axis, place in zip(batching, along, strict=True):
        operand[axis] = batch[place]
    sizes = [
        1 if axis in (*dropped, *batching) else draw(st.integers(1, operand[axis]))
        for axis in range(rank)
    ]
    inner = [sizes[axis] for axis in free if axis not in dropped]
    windows_rank = batch_rank + len(inner)
    kept = sorted(draw(st.permutations(range(windows_rank)))[: len(inner)])
    implicit = len(indexed) == 1 and draw(st.booleans())
    vector = batch_rank if implicit else draw(st.integers(0, batch_rank))
    indices = [*batch] if implicit else [*batch[:vector], len(indexed), *batch[vector:]]
    shifted = [place + (place >= vector) for place in along]
    slices, batches = iter(inner), iter(batch)
    windows = [next(slices) if axis in kept else next(batches) for axis in range(windows_rank)]
    return WindowLayout(
        tuple(operand), tuple(sizes), tuple(indices), tuple(windows), tuple(indexed), vector,
        tuple(kept), tuple(dropped), tuple(zip(batching, shifted, strict=True)),
    )  # fmt: skip
