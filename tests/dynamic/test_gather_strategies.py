"""The strategies of gather over symbolic extents, each alone."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from emitting import Emitted

from dialect_handlers.common.dimension_numbers import (
    Batch,
    GatherDimensions,
    Window,
    gather_dimensions,
)
from dialect_handlers.stablehlo.gather import (
    Starts,
    constant_slice,
    dynamic_slice,
    elements,
    rows,
    tuples,
)
from hlo2onnx.ir.dims import canonical, expression, symbol
from hlo2onnx.ir.values import Dim
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.shape_arithmetic import holding

B = symbol("b", positive=True)
FEWER, MORE = canonical(B - 1), canonical(B + 3)


def numbers(
    dims: Sequence[Dim], sizes: Sequence[Dim], starts: Sequence[Dim], axes: Sequence[int]
) -> GatherDimensions:
    """Those of a gather whose index vectors, along the last axis, go along these axes."""
    batch = len(starts) - 1
    given = SimpleNamespace(
        offset_dims=list(range(batch, batch + len(dims))),
        collapsed_slice_dims=[],
        operand_batching_dims=[],
        start_indices_batching_dims=[],
        start_index_map=list(axes),
        index_vector_dim=batch,
    )
    return gather_dimensions(given, sizes, dims, starts)


def following(starts: oir.Value, dims: Sequence[Dim]) -> oir.Value:
    contents = np.empty(len(dims), object)
    contents[:] = [expression(dim) for dim in dims]
    return holding(starts, contents)


ORDERS: list[tuple[Sequence[int], Sequence[Dim], list[Dim] | None]] = [
    ((0, 1), [0, FEWER], [0, FEWER]),
    ((1, 0), [0, FEWER], None),  # no vector is picked apart here
    ((0, 1), [0, B], None),
]


@pytest.mark.parametrize(("axes", "contents", "expected"), ORDERS)
def test_extents_of_starts_that_follow_from_shapes(
    axes: Sequence[int], contents: Sequence[Dim], expected: list[Dim] | None
) -> None:
    n = numbers((B, B), (1, 1), (2,), axes)
    found: list[Any] = []

    def build(em: Emitter, starts: oir.Value) -> list[oir.Value]:
        found.append(Starts(em, n, following(starts, contents), 0).extents)
        return []

    Emitted(build, {"starts": np.zeros(2, np.int64)})
    assert found == [expected]


@pytest.mark.parametrize(("shape", "expected"), [((1, 1), (1,)), ((1,), ())])
def test_scalars_have_the_shape_of_the_batch(
    shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    n = numbers((B, 3), (1, 3), shape, [0])

    def build(em: Emitter, x: oir.Value, starts: oir.Value) -> oir.Value:
        return Starts(em, n, following(starts, [FEWER]), len(shape) - 1).scalars()

    inputs = {"x": np.zeros((5, 3)), "starts": np.full(shape, 4)}
    made = Emitted(build, inputs, {"x": [B, 3]})
    assert tuple(made.outputs[0].shape or ()) == expected


def gathered(
    strategy: Any, n: GatherDimensions, x: np.ndarray, starts: np.ndarray
) -> tuple[Emitted, Any]:
    found: list[Any] = []

    def build(em: Emitter, x: oir.Value, starts: oir.Value, y: oir.Value) -> list[oir.Value]:
        made = strategy(em, n, x, Starts(em, n, starts, starts.shape.rank() - 1))
        if made is None:
            return []
        found.append(made[1])
        return [made[0]]

    inputs = {"x": x, "starts": starts, "y": np.zeros(5, np.float32)}
    return Emitted(build, inputs, {"x": n.dims, "y": [B]}), (found or [None])[0]


def windows(x: np.ndarray, starts: np.ndarray, axes: Sequence[int], size: int) -> np.ndarray:
    made = []
    for start in starts:
        index: list[Any] = [slice(None)] * x.ndim
        for axis, first in zip(axes, start, strict=True):
            index[axis] = slice(first, first + size)
        made.append(x[tuple(index)])
    return np.stack(made)


def test_rows_of_a_symbolic_size() -> None:
    x = np.arange(2 * 8 * 3, dtype=np.float32).reshape(2, 8, 3)
    starts = np.array([[3], [0], [1], [2]])
    n = numbers((2, MORE, 3), (2, B, 3), (4, 1), [1])
    made, axes = gathered(rows, n, x, starts)
    assert axes == [Window(0), Batch(0), Window(1), Window(2)]
    made.gives(np.moveaxis(windows(x, starts, [1], 5), 0, 1))


def test_patches_of_a_symbolic_size() -> None:
    x = np.arange(8 * 8 * 2, dtype=np.float32).reshape(8, 8, 2)
    starts = np.array([[3, 0], [0, 2], [1, 3], [2, 2]])
    n = numbers((MORE, MORE, 2), (B, B, 2), (4, 2), [0, 1])
    made, axes = gathered(tuples, n, x, starts)
    assert axes == [Batch(0), Window(0), Window(1), Window(2)]
    made.gives(windows(x, starts, [0, 1], 5))


def test_neighbours_that_a_reshape_makes_one() -> None:
    """The places along them are counted with strides, which must be numbers."""
    starts = np.array([[3, 0], [0, 2], [1, 3], [2, 2]])
    x = np.arange(2 * 8 * 8, dtype=np.float32).reshape(2, 8, 8)
    assert gathered(rows, numbers((2, 8, MORE), (2, 2, B), (4, 2), [1, 2]), x, starts)[1] is None
    n = numbers((2, MORE, 8), (2, B, 5), (4, 2), [1, 2])
    made, axes = gathered(rows, n, x, starts)
    assert axes == [Window(0), Batch(0), Window(1), Window(2)]
    made.gives(np.moveaxis(windows(x, starts, [1, 2], 5), 0, 1))


def test_what_each_strategy_takes() -> None:
    """Rows that lead are left to GatherND, several slices to Gather."""
    x, y = np.zeros((8, 8), np.float32), np.zeros((2, 8, 8), np.float32)
    vectors = np.zeros((4, 2), np.int64)
    pairs = numbers((8, 8), (1, 1), (4, 2), [0, 1])
    assert gathered(rows, pairs, x, vectors)[1] is None
    assert gathered(elements, pairs, x, vectors)[1] is None
    assert gathered(constant_slice, pairs, x, vectors)[1] is None
    assert gathered(dynamic_slice, pairs, x, vectors)[1] is None
    assert gathered(dynamic_slice, numbers((8, 8), (1, 1), (2,), [0, 1]), x, vectors[0])[1] is None
    for sizes, axes in (((2, 1, 1), [1, 2]), ((2, 3, 8), [1])):
        n = numbers((2, 8, 8), sizes, (len(axes),), axes)
        made, found = gathered(dynamic_slice, n, y, vectors[0, : len(axes)])
        assert found == [Window(0), Window(1), Window(2)]
        assert made.nodes[-1] == "Slice"


def test_a_slice_that_follows_from_shapes() -> None:
    """One row is left to Gather, which needs no second extent."""
    x = np.arange(16, dtype=np.float32).reshape(8, 2)

    def build(em: Emitter, x: oir.Value, starts: oir.Value, y: oir.Value) -> list[oir.Value]:
        row = numbers((MORE, 2), (1, 2), (1,), [0])
        assert constant_slice(em, row, x, Starts(em, row, following(starts, [B]), 0)) is None
        n = numbers((MORE, 2), (3, 2), (1,), [0])
        made = constant_slice(em, n, x, Starts(em, n, following(starts, [B]), 0))
        assert made is not None
        return [made[0]]

    inputs = {"x": x, "starts": np.zeros(1, np.int64), "y": np.zeros(5, np.float32)}
    Emitted(build, inputs, {"x": [MORE, 2], "y": [B]}).gives(x[5:])
