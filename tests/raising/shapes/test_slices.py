"""Each Slice rule where it fires and where it must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, rewrites
from jax import lax
from rewriting import Rewrite
from symbolic import free

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.values import const_ints
from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules.shapes.slices import (
    ComposeConcats,
    ComposeSlices,
    SliceOfConcat,
    SliceOfOuter,
    StackToConcat,
)

X = np.arange(8, dtype=np.float32).reshape(2, 4)
Y = np.arange(12, dtype=np.float32).reshape(3, 4)
Z = np.arange(32, dtype=np.float32).reshape(8, 4)
PAIR = {"x": X, "y": Y}
INPUTS = {**PAIR, "z": Z, "t": X.T.copy()}
FLOAT = oir.DataType.FLOAT
BOTH = "Concat(x, y, axis=0)"
OF_CONCAT: dict[str, str] = {
    # A whole part, and some of one.
    **{f"Neg(slice({BOTH}, [{start}], [{end}], axes=[0]))": "Neg"
       for start, end in ((0, 2), (2, 5), (-3, 9), (-9, 2))},
    **{f"slice({BOTH}, [{start}], [{end}], axes=[0])": "Slice"
       for start, end in ((0, 1), (1, 2), (3, 5), (-2, -1))},
    f"Slice({BOTH}, [2], [4], [0])": "Slice",
    "slice(Concat(x, Neg(x), slice(x, [0], [1], axes=[1]), axis=1), [5], [8], axes=[1])":
        "Neg Slice",
    # Of both parts, along another axis or two, in steps, backwards, and empty.
    **{f"slice({BOTH}, {cut})": NOTHING for cut in (
        "[1], [3], axes=[0]", "[1], [3], axes=[1]", "[0, 0], [2, 3], axes=[0, 1]",
        "[2], [5], [2], [0]", "[4], [1], [-1], [0]", f"[-1], [{INT64_MIN}], [-1], [0]",
        "[2], [2], axes=[0]",
    )},
    f"Neg(slice({BOTH}, [2], [5], [2], axes=[0]))": NOTHING,
    "slice(Neg(x), [0], [1], axes=[0])": NOTHING,
    "slice(y, [1], [2], axes=[0])": NOTHING,
}  # fmt: skip
BACK = f"[-1], [{INT64_MIN}], [-1], [0]"
COMPOSED: dict[str, str] = {
    "Slice(Slice(z, [1], [6], [0], [1]), [1], [3], [0], [1])": "Slice",
    "Slice(Slice(z, [1], [7], [0], [2]), [0], [9], [0], [2])": "Slice",
    "Slice(Slice(z, [2], [7], [0], [2]), [1], [2], [1], [1])": "Slice",
    "Slice(Slice(z, [-6, 1], [99, -1], [-2, 1], [1, 1]), [0, 1], [2, 4], [1, 0], [1, 2])": "Slice",
    # Those that turn round, of which a part is reversed, and empty ones.
    f"slice(slice(t, [1], [3], [1], [0]), {BACK})": NOTHING,
    f"slice(slice(t, {BACK}), [1], [3], [1], [0])": NOTHING,
    f"slice(slice(t, [2], [{INT64_MIN}], [-1], [0]), {BACK})": NOTHING,
    "Slice(Slice(t, [0], [1], [0]), [1], [1], [0])": NOTHING,
    "Slice(Slice(t, [1], [1], [0]), [0], [1], [0])": NOTHING,
    "slice(Neg(x), [0], [1], axes=[0])": NOTHING,
    "slice(y, [1], [2], axes=[0])": NOTHING,
}
JOINED: dict[str, str] = {
    **{f"concat([Exp(x), concat([x, Neg(x)], {inner}), concat([Abs(x), x], {inner})], {outer})":
       "Exp Neg Abs Concat" for inner, outer in ((0, 0), (1, 1), (1, -1))},
    "concat([concat([concat([x, Neg(x)], 0), Abs(x)], 0), x], 0)": "Neg Abs Concat",
    "concat([concat([x, Neg(x)], 0), concat([Abs(x), Neg(x)], 0)], 1)": NOTHING,
    "(c := concat([x, Neg(x)], 0), concat([c, x], 0))": NOTHING,
    "(c := concat([x, Neg(x)], 0), concat([c, c], 0))[1]": NOTHING,
    "concat([x, Neg(x)], 0)": NOTHING,
}  # fmt: skip
STACKED: dict[str, str] = {
    "reshape(concat([reshape(x, (2, 1, 4)), reshape(Neg(x), (2, 1, 4))], 1), (2, 8))": "Neg Concat",
    "reshape(concat([reshape(x, (1, 2, 4)), reshape(y, (1, 3, 4))], 1), (5, 4))": NOTHING,
    "reshape(concat([reshape(z, (2, 4, 4)), reshape(Neg(z), (2, 4, 4))], 0), (16, 4))": NOTHING,
    "(v := reshape(x, (2, 1, 4)), Abs(v), reshape(concat([v, Neg(v)], 1), (2, 8)))[1:]": NOTHING,
    # Neighbors, parts that are not reshaped or otherwise, and axes that are not merged.
    "reshape(concat([reshape(x, (2, 4, 1)), reshape(Neg(x), (2, 4, 1))], 2), (2, 8))": NOTHING,
    "reshape(concat([x, Neg(x)], 0), (16,))": NOTHING,
    "reshape(concat([reshape(t, (2, 1, 4)), reshape(x, (2, 1, 4))], 1), (2, 8))": NOTHING,
    "reshape(concat([reshape(x, (2, 1, 4)), reshape(Neg(x), (2, 1, 4))], 1), (4, 4))": NOTHING,
}  # fmt: skip
COLUMN = "slice(z, [0], [1], axes=[1])"
ROW = "slice(z, [0], [1], axes=[0])"
OUTER: dict[str, str] = {
    f"slice(Add({COLUMN}, {ROW}), [2], [5], axes=[0])": "Slice Slice Slice Add",
    f"slice(Sub({ROW}, {COLUMN}), [1], [3], axes=[1])": "Slice Slice Slice Sub",
    f"slice(Neg(Add({COLUMN}, {ROW})), [2], [8], [3], axes=[0])": "Slice Slice Slice Add Neg",
    f"(c := {COLUMN}, slice(Mul(Neg(Add(c, {ROW})), c), [2], [5], axes=[0]))[1]":
        "Slice Slice Slice Add Neg Slice Mul",
    # Operands as large as the result, another reader, several axes, and none that is cut.
    f"slice(Add(z, {COLUMN}), [2], [5], axes=[0])": NOTHING,
    f"slice(Neg({COLUMN}), [2], [5], axes=[0])": NOTHING,
    f"(s := Add({COLUMN}, {ROW}), Exp(s), slice(s, [2], [5], axes=[0]))[1:]": NOTHING,
    f"slice(Add({COLUMN}, {ROW}), [2, 0], [5, 2], axes=[0, 1])": NOTHING,
    f"slice(Add(Neg({ROW}), {ROW}), [0], [0], axes=[0])": NOTHING,
}  # fmt: skip
TABLES: list[tuple[Rule, dict[str, str]]] = [
    (SliceOfConcat(), OF_CONCAT), (ComposeSlices(), COMPOSED), (ComposeConcats(), JOINED),
    (StackToConcat(), STACKED), (SliceOfOuter(), OUTER),
]  # fmt: skip
CASES = [(rule, text, left) for rule, rows in TABLES for text, left in rows.items()]


@pytest.mark.parametrize(("rule", "text", "left"), CASES)
def test_expressions(rule: Rule, text: str, left: str) -> None:
    rewrites(text, left, INPUTS, rule, tolerance=1e-6)


def test_ranges_computed_at_run_time_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value, end: oir.Value) -> oir.Value:
        joined, rows = b.Concat(x, y, axis=0), (oir.SymbolicDim("n"), 4)
        types = [(FLOAT, rows)]
        return b.op("Slice", joined, b.i64([0]), end, b.i64([0]), types=types)

    Rewrite(build, {**PAIR, "end": np.array([1])}, SliceOfConcat()).nothing()


def test_unknown_extents_may_differ() -> None:
    def build(b: GraphBuilder, x: oir.Value, end: oir.Value) -> oir.Value:
        types = [(oir.DataType.INT64, (2, oir.SymbolicDim(None)))]
        places = b.Concat(*(b.op("NonZero", y, types=types) for y in (x, b.Neg(x))), axis=1)
        return b.op("Slice", places, b.i64([0]), end, b.i64([1]), types=types)

    Rewrite(build, {"x": X, "end": np.array([1])}, SliceOfConcat()).nothing()


@pytest.mark.parametrize(
    ("row", "axis", "left"),
    [
        (1, 0, "Gather"),
        (-1, 0, "Gather"),
        (1, -1, "Gather"),
        (4, 1, "Slice Neg Squeeze"),
        (5, 1, "Gather"),
    ],
)
def test_a_row_is_one_of_a_part(row: int, axis: int, left: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        parts = [b.Neg(b.slice(x, [0], [1], axes=[1])), x]
        return b.Gather(b.Concat(x, *parts, axis=axis) if axis else b.Concat(x, x, axis=0),
                        b.i64(row), axis=axis)  # fmt: skip

    Rewrite(build, {"x": X}, SliceOfConcat()).gives(*left.split())


@pytest.mark.parametrize("rows", [[1, 2], [[1]], [1]])
def test_several_rows_stay(rows: list[Any]) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Gather(b.Concat(x, y, axis=0), b.const(np.array(rows)), axis=0)

    Rewrite(build, PAIR, SliceOfConcat()).nothing()


@pytest.mark.parametrize(
    ("start", "axis", "extent", "fires"),
    [(0, 0, "n", True), (1, 0, "n", False), (0, 0, "m", False), (0, 1, "n", False)],
)
def test_the_first_rows_of_free_extent(start: int, axis: int, extent: str, fires: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value, end: oir.Value) -> oir.Value:
        n, total = oir.SymbolicDim("n"), oir.SymbolicDim("t")
        joined = b.op("Concat", free(b, x, "n", 4), y, axis=0, types=[(FLOAT, (total, 4))])
        dims = (oir.SymbolicDim(extent), 4) if axis == 0 else (total, n)
        spec = b.i64([start]), end, b.i64([axis])
        return b.Neg(b.op("Slice", joined, *spec, types=[(FLOAT, dims)]))

    case = Rewrite(build, {**PAIR, "end": np.array([2])}, SliceOfConcat())
    case.gives("Identity", "Neg") if fires else case.nothing()


@pytest.mark.parametrize(
    ("inner", "outer", "left"),
    [([0], [0], 0), ([0], [1], 1), ([0, 1], [1], 1), ([0, 1], [1, 0], 0), ([0, 1], [-2, -1], 0)],
)
def test_reversed_axes_are_reversed_back(inner: list[int], outer: list[int], left: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        for axes in (inner, outer):
            n = len(axes)
            x = b.op("Slice", x, b.i64([-1] * n), b.i64([INT64_MIN] * n), b.i64(axes),
                     b.i64([-1] * n), types=[(FLOAT, (4, 6))])  # fmt: skip
        return b.Neg(x)

    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    Rewrite(build, {"x": x}, ComposeSlices()).gives(*["Slice"] * left, "Neg")


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
            return b.op("Slice", x, *map(b.i64, spec), types=[(FLOAT, (1, 4))])

        joined = b.Concat(free(b, x, "n", 4), y, axis=0)
        return [cut(joined, [0], [1], [0]), cut(b.Concat(x, y, axis=0), [0], [1])]

    Rewrite(build, PAIR, SliceOfConcat()).nothing()


def test_a_concat_of_a_free_part_that_is_known_as_a_whole() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        types = [(FLOAT, (5, 4))]
        joined = b.op("Concat", y, free(b, x, "n", 4), axis=0, types=types)
        return b.Slice(joined, *map(b.i64, ([3], [5], [0])))

    Rewrite(build, PAIR, SliceOfConcat()).nothing()


def test_ranges_of_which_a_part_is_computed_are_not_composed() -> None:
    def build(b: GraphBuilder, x: oir.Value, k: oir.Value) -> list[oir.Value]:
        inner = b.Slice(x, *map(b.i64, ([1], [7], [0])))
        types = [(FLOAT, (oir.SymbolicDim("n"), 4))]
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
