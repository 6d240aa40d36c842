"""Writing and reading one window of a tensor, in as little as its start allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from emitting import Emitted
from every_size import every_size
from jax import lax

from dialect_handlers.common.slices import MOST_ROWS, read_window, write_window
from hlo2onnx.targets import load_target

SMALL_PART = int(load_target("ort-cpu").costs.scattered_part)
WHOLE = int(load_target("ort-cpu").costs.small_elements)
SCATTERED, CONSTANT = ["Add", "ScatterND"], ["ScatterND"]


@pytest.mark.parametrize(
    ("dims", "sizes", "starts", "nodes"),
    [
        # A part of 1 / SMALL_PART is scattered, a larger one is put between slices.
        ((16,), (2,), {0: 3}, ["ScatterND"]),
        ((15,), (2,), {0: 3}, ["Slice", "Slice", "Concat"]),
        ((15,), (2,), {0: 0}, ["Slice", "Concat"]),
        ((15,), (2,), {0: 13}, ["Slice", "Concat"]),
        ((15,), (2,), {0: 1}, ["Slice", "Slice", "Concat"]),
        ((15,), (2,), {0: 12}, ["Slice", "Slice", "Concat"]),
        ((16,), (2,), {0: "start"}, ["Add", "ScatterND"]),
        ((16,), (1,), {0: "start"}, ["Reshape", "ScatterND"]),
        ((15,), (2,), {0: "start"}, ["Add", "ScatterND"]),  # small as a whole
        ((WHOLE + 1,), (WHOLE - 9,), {0: "start"}, ["Slice", "Add", "Slice", "Concat"]),
        ((3, 4), (3, 4), {}, []),
        ((3, 4), (3, 4), {0: 0, 1: 0}, []),
        # Only the axes up to the last partial one are indexed.
        ((4, 8), (1, 4), {0: 2, 1: 4}, ["ScatterND"]),
        ((16, 3), (2, 3), {0: 5}, ["ScatterND"]),
        ((3, 16), (3, 2), {1: 5}, ["ScatterND"]),
        ((3, 16), (3, 2), {1: "start"}, ["Concat", "Add", "ScatterND"]),
        ((3, 16), (1, 2), {0: 1, 1: "start"}, ["Concat", "Add", "ScatterND"]),
        ((3, 16), (1, 1), {1: "start"}, ["Concat", "Reshape", "ScatterND"]),
        ((3, 16), (1, 1), {0: 1, 1: "start"}, ["Concat", "Add", "ScatterND"]),
        # Axis by axis: a band along the first one is written and put back.
        ((3, 5), (2, 4), {0: 1, 1: 1}, ["Slice"] * 3 + ["Concat"] * 2),
        ((3, 5), (2, 4), {0: 1}, ["Slice"] * 3 + ["Concat"] * 2),
        ((3, 5), (1, 4), {0: "start"}, ["Concat", "Add", "ScatterND"]),
        (
            (3, WHOLE),
            (1, WHOLE - 1),
            {0: "start"},
            ["Gather"] + ["Slice"] * 3 + ["Concat"] * 2 + ["Add"],
        ),
        ((3, WHOLE), (2, WHOLE - 1), {0: "start"}, ["Slice"] * 4 + ["Concat"] * 2 + ["Add"] * 2),
        ((MOST_ROWS * SMALL_PART,), (MOST_ROWS,), {0: 7}, ["ScatterND"]),
        (((MOST_ROWS + 1) * SMALL_PART,), (MOST_ROWS + 1,), {0: 7}, ["Slice"] * 2 + ["Concat"]),
    ],
)
def test_writing(
    dims: tuple[int, ...], sizes: tuple[int, ...], starts: dict[int, Any], nodes: list[str]
) -> None:
    x, update = _numbers(dims), -1 - _numbers(sizes)
    for start in (0, 1):

        def build(em: Any, x: oir.Value, u: oir.Value, s: oir.Value) -> oir.Value:
            known = {axis: s if item == "start" else item for axis, item in starts.items()}
            result = write_window(em, x, u, known)
            assert tuple(result.shape or ()) == dims
            return result

        made = Emitted(build, {"x": x, "u": update, "s": np.array([start])})
        assert sorted(made.nodes) == sorted(nodes)
        expected = x.copy()
        expected[_window(sizes, starts, start)] = update
        np.testing.assert_array_equal(made.results[0], expected)


@pytest.mark.parametrize(
    ("dims", "sizes", "starts", "nodes"),
    [
        ((4, 5), (4, 5), {}, []),
        ((4, 5), (2, 5), {0: 1}, ["Slice"]),
        ((4, 5), (2, 3), {0: 1}, ["Slice"]),
        ((4, 5), (2, 3), {}, ["Slice"]),
        ((4, 5), (1, 5), {0: "start"}, ["Gather"]),
        ((4, 5), (2, 5), {0: "start"}, ["Add", "Slice"]),
        ((4, 5), (4, 5), {0: "zero"}, []),
        ((4, 5), (2, 3), {0: 2, 1: "start"}, ["Add", "Slice", "Slice"]),
        ((4, 5), (1, 3), {0: "start", 1: "start"}, ["Add", "Gather", "Slice"]),
    ],
)
def test_reading(
    dims: tuple[int, ...], sizes: tuple[int, ...], starts: dict[int, Any], nodes: list[str]
) -> None:
    x = _numbers(dims)
    for start in (0, 1):

        def build(em: Any, x: oir.Value, s: oir.Value) -> oir.Value:
            known = {
                axis: item if isinstance(item, int) else s if item == "start" else em.i64([0])
                for axis, item in starts.items()
            }
            return read_window(em, x, sizes, known)

        made = Emitted(build, {"x": x, "s": np.array([start])})
        assert sorted(made.nodes) == sorted(nodes)
        np.testing.assert_array_equal(made.results[0], x[_window(sizes, starts, start)])


def _numbers(dims: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(dims)), dtype=np.int32).reshape(dims)


def _window(sizes: tuple[int, ...], starts: dict[int, Any], start: int) -> tuple[slice, ...]:
    firsts = [{"start": start, "zero": 0}.get(starts.get(k, 0), starts.get(k, 0))
              for k in range(len(sizes))]  # fmt: skip
    return tuple(slice(first, first + size) for first, size in zip(firsts, sizes, strict=True))


@pytest.mark.parametrize("start", [(1, 1), (0, 1), (1, 0)])
def test_writing_a_window_of_symbolic_extents(start: tuple[int, int]) -> None:
    every_size(lambda x, u: lax.dynamic_update_slice(x, u, start), "n + 1, 5", "n, 4")
