"""Each Slice rule where it fires and where it must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import lax
from rewriting import Rewrite
from symbolic import free

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.values import const_ints
from hlo2onnx.raising.rules.shapes.slices import ComposeSlices, SliceOfConcat

X = np.arange(8, dtype=np.float32).reshape(2, 4)
Y = np.arange(12, dtype=np.float32).reshape(3, 4)
INPUTS = {"x": X, "y": Y}


@pytest.mark.parametrize(("start", "end"), [(0, 2), (2, 5), (-3, 9), (-9, 2)])
def test_a_whole_part_is_that_part(start: int, end: int) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Neg(b.slice(b.Concat(x, y, axis=0), [start], [end], axes=[0]))

    Rewrite(build, INPUTS, SliceOfConcat()).gives("Neg")


@pytest.mark.parametrize(("start", "end"), [(0, 1), (1, 2), (3, 5), (-2, -1)])
def test_some_of_a_part_is_cut_from_it(start: int, end: int) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.slice(b.Concat(x, y, axis=0), [start], [end], axes=[0])

    Rewrite(build, INPUTS, SliceOfConcat()).gives("Slice")


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1], [3], [0], [1]),  # of both parts
        ([1], [3], [1], [1]),  # along another axis
        ([0, 0], [2, 3], [0, 1], [1, 1]),
        ([2], [5], [0], [2]),
        ([4], [1], [0], [-1]),
        ([-1], [INT64_MIN], [0], [-1]),
        ([2], [2], [0], [1]),
    ],
)
def test_anything_else_stays(
    starts: list[int], ends: list[int], axes: list[int], steps: list[int]
) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.slice(b.Concat(x, y, axis=0), starts, ends, steps, axes)

    Rewrite(build, INPUTS, SliceOfConcat()).nothing()


def test_ranges_computed_at_run_time_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value, end: oir.Value) -> oir.Value:
        joined, rows = b.Concat(x, y, axis=0), (oir.SymbolicDim("n"), 4)
        types = [(oir.DataType.FLOAT, rows)]
        return b.op("Slice", joined, b.i64([0]), end, b.i64([0]), types=types)

    Rewrite(build, {**INPUTS, "end": np.array([1])}, SliceOfConcat()).nothing()


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (([1], [3], [0], [1]), ([1], [6], [0], [1])),
        (([0], [9], [0], [2]), ([1], [7], [0], [2])),
        (([1], [2], [1], [1]), ([2], [7], [0], [2])),
        (([0, 1], [2, 4], [1, 0], [1, 2]), ([-6, 1], [99, -1], [-2, 1], [1, 1])),
    ],
)
def test_compose_slices(outer: tuple[list[int], ...], inner: tuple[list[int], ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        def cut(x: oir.Value, spec: tuple[list[int], ...]) -> oir.Value:
            return b.Slice(x, *map(b.i64, spec))

        return cut(cut(x, inner), outer)

    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    Rewrite(build, {"x": x}, ComposeSlices()).gives("Slice")


@pytest.mark.parametrize("backwards", ["outer", "inner"])
def test_slices_that_turn_round_are_not_composed(backwards: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        turned, straight = ([-1], [INT64_MIN], [-1], [0]), ([1], [3], [1], [0])
        for spec in (straight, turned) if backwards == "outer" else (turned, straight):
            x = b.slice(x, *spec)
        return x

    Rewrite(build, {"x": X.T.copy()}, ComposeSlices()).nothing()


@pytest.mark.parametrize(
    ("inner", "outer", "left"),
    [([0], [0], 0), ([0], [1], 1), ([0, 1], [1], 1), ([0, 1], [1, 0], 0), ([0, 1], [-2, -1], 0)],
)
def test_reversed_axes_are_reversed_back(inner: list[int], outer: list[int], left: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        for axes in (inner, outer):
            n = len(axes)
            x = b.op("Slice", x, b.i64([-1] * n), b.i64([INT64_MIN] * n), b.i64(axes),
                     b.i64([-1] * n), types=[(oir.DataType.FLOAT, (4, 6))])  # fmt: skip
        return b.Neg(x)

    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    Rewrite(build, {"x": x}, ComposeSlices()).gives(*["Slice"] * left, "Neg")


def test_part_of_a_reversed_axis() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.slice(b.slice(x, [2], [INT64_MIN], [-1], [0]), [-1], [INT64_MIN], [-1], [0])

    Rewrite(build, {"x": X.T.copy()}, ComposeSlices()).nothing()


CUBE = np.random.default_rng(0).normal(size=(7, 30, 4)).astype(np.float32)
AT_A_PLACE: dict[str, tuple[str, Callable[[jax.Array, jax.Array], Any], np.ndarray]] = {
    "of-rows": (
        "partition-loop",
        lambda x, i: lax.scan(
            lambda h, r: (jnp.tanh(h + r.sum()), lax.dynamic_slice(jnp.exp(r), (i, 0), (2, 4))),
            0.0,
            x,
        ),
        CUBE,
    ),
    "of-states": (
        "partition-loop",
        lambda x, i: lax.scan(
            lambda h, r: (jnp.tanh(h + r), lax.dynamic_slice(jnp.exp(h), (i, 0), (2, 4))), x[0], x
        ),
        CUBE,
    ),
    "of-a-transpose": (
        "sink-transpose",
        lambda x, i: lax.dynamic_slice(x.transpose(2, 0, 1), (i, 0, 0), (2, 7, 30)).sum(0),
        CUBE,
    ),
}


@pytest.mark.parametrize("name", AT_A_PLACE)
def test_axes_have_the_type_of_starts(name: str) -> None:
    """JAX's starts are i32, and so are the axes that a rule gives such a Slice."""
    rule, function, x = AT_A_PLACE[name]
    program = hlo2onnx.translate(jax.jit(function).lower(x, np.int32(1)))
    assert program.report.rules[rule]
    for place in (-3, 1, 50):
        report = program.verify(x, np.int32(place))
        assert report.ok, report


def test_a_part_of_a_free_extent_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        def cut(x: oir.Value, *spec: list[int]) -> oir.Value:
            return b.op("Slice", x, *map(b.i64, spec), types=[(oir.DataType.FLOAT, (1, 4))])

        joined = b.Concat(free(b, x, "n", 4), y, axis=0)
        return [cut(joined, [0], [1], [0]), cut(b.Concat(x, y, axis=0), [0], [1])]

    Rewrite(build, INPUTS, SliceOfConcat()).nothing()


def test_a_concat_of_a_free_part_that_is_known_as_a_whole() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        types = [(oir.DataType.FLOAT, (5, 4))]
        joined = b.op("Concat", y, free(b, x, "n", 4), axis=0, types=types)
        return b.Slice(joined, *map(b.i64, ([3], [5], [0])))

    Rewrite(build, INPUTS, SliceOfConcat()).nothing()


def test_slices_of_something_else_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        return [b.slice(b.Neg(x), [0], [1], axes=[0]), b.slice(y, [1], [2], axes=[0])]

    Rewrite(build, INPUTS, SliceOfConcat(), ComposeSlices()).nothing()


def test_the_second_axis_of_a_concat() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        joined = b.Concat(x, b.Neg(x), b.slice(x, [0], [1], axes=[1]), axis=1)
        return b.slice(joined, [5], [8], axes=[1])

    Rewrite(build, INPUTS, SliceOfConcat()).gives("Neg", "Slice")


def test_the_first_axis_is_joined_without_being_named() -> None:
    """An operand of its own for each axis and step is not needed."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Slice(b.Concat(x, y, axis=0), *map(b.i64, ([2], [4], [0])))

    Rewrite(build, INPUTS, SliceOfConcat()).gives("Slice")


@pytest.mark.parametrize("empty", ["outer", "inner"])
def test_empty_slices_are_not_composed(empty: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        nothing, some = ([1], [1], [0]), ([0], [1], [0])
        for spec in (some, nothing) if empty == "outer" else (nothing, some):
            x = b.Slice(x, *map(b.i64, spec))
        return x

    Rewrite(build, {"x": X.T.copy()}, ComposeSlices()).nothing()


def test_ranges_of_which_a_part_is_computed_are_not_composed() -> None:
    def build(b: GraphBuilder, x: oir.Value, k: oir.Value) -> list[oir.Value]:
        inner = b.Slice(x, *map(b.i64, ([1], [7], [0])))
        types = [(oir.DataType.FLOAT, (oir.SymbolicDim("n"), 4))]
        step = b.op("Slice", inner, *map(b.i64, ([0], [4], [0])), k, types=types)
        start = b.op("Slice", inner, k, *map(b.i64, ([4], [0], [1])), types=types)
        return [step, start]

    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    Rewrite(build, {"x": x, "k": np.array([2])}, ComposeSlices()).nothing()


def test_ends_of_composed_slices() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        inner = b.Slice(x, *map(b.i64, ([1, 1], [8, 4], [0, 1], [3, 1])))
        return b.Slice(inner, *map(b.i64, ([1], [3], [0])))

    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    rewrite = Rewrite(build, {"x": x}, ComposeSlices())
    rewrite.gives("Slice")
    (node,) = rewrite.model.graph
    assert [const_ints(item) for item in node.inputs[1:]] == [(4, 1), (8, 4), (0, 1), (3, 1)]


def test_rows_left_out_of_a_part_stay_out() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Neg(b.slice(b.Concat(x, y, axis=0), [2], [5], [2], axes=[0]))

    Rewrite(build, INPUTS, SliceOfConcat()).nothing()
