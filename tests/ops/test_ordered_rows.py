"""Rows of updates with equal targets, in blocks that a ScatterND takes in order."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from against_xla import Run, against_jax, against_xla
from every_size import every_size
from scatter_case import BATCHED_ROWS, FRAMES, FRAMES_LAST, PAIRS, PATCHES, Case
from target_costs import use_costs, with_costs

from dialect_handlers.common.regions import Combiner
from dialect_handlers.common.scatter_updates import Region
from dialect_handlers.stablehlo.scatter.handler import rows_at_once
from hlo2onnx.ir.dims import symbol

SMALL = {"ordered_scatter_elements": 24, "ordered_scatter_copies": 4, "many_elements": 8}
COSTS = with_costs(**SMALL).costs
N = symbol("n", positive=True)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, **SMALL)


def rows(height: int, count: int, width: int = 3) -> Case:
    return Case((height, width), (count, 1), (count, width), (0,), 1, (1,), (0,))


def wide(value: Any) -> Any:
    return pytest.param(value, marks=pytest.mark.wide)


def region(*names: Combiner | None) -> Region:
    return Region(lambda *_: [], list(names))


AT_ONCE: list[tuple[Any, Any, Any, int]] = [
    (5, 8, 3, 8),  # one block, of 24 elements
    (5, 9, 3, 3),  # 2 blocks would leave a row over
    (5, 11, 3, 8),  # ... and so would 3 and 4
    (5, 80, 3, 8),
    (5, 90, 3, 6),  # 15 blocks instead of 12
    (32, 80, 3, 8),
    (33, 80, 3, 0),  # too much would be copied
    (10**9, 8, 3, 8),
    (5, 80, 1, 0),
    (5, 1, 25, 0),
    (5, 1, 24, 1),
    (5, 3, N, 0),
    (5, N, 3, 8),
    (N, 8, 3, 8),
    (N, 80, 3, 0),
]


@pytest.mark.parametrize(("height", "count", "width", "expected"), AT_ONCE)
def test_rows_at_once(height: Any, count: Any, width: Any, expected: int) -> None:
    assert rows_at_once(COSTS, region(Combiner.ADD), [height, width], count) == expected
    assert rows_at_once(COSTS, region(Combiner.ADD, None), [height, width], count) == 0


def test_a_target_that_splits_every_scatter() -> None:
    costs = with_costs(ordered_scatter_elements=0).costs
    assert rows_at_once(costs, region(Combiner.ADD), [5, 2], 1) == 0


def test_the_standard_says_nothing_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    rows(5, 40).run(region="add", target="onnx").has_no("ScatterND", "Scan")


VECTORLESS = Case((5,), (8, 5), (8, 5), (0,), 2, (), (0,))
LOOSE = np.array([0, 4, -1, 5, 4, 0, 2**31 - 1, -(2**31), -5, 4])


@pytest.mark.parametrize("name", ["set", "keep", "add", "multiply", "minimum", "maximum"])
@pytest.mark.parametrize("count", [8, 11, wide(9), wide(40)])
def test_blocks(name: str, count: int) -> None:
    run = rows(5, count).run(np.resize(LOOSE, count), name)
    passes = {"keep": 0, **dict.fromkeys(("minimum", "maximum"), 2)}.get(name, 1)
    assert run.nodes["Scan"] == passes * (count > 8)
    run.has_no("Loop", "ScatterElements")


BOOLEANS = ["and", "or", "xor"]
NAMES = ["add", "multiply", "minimum", "maximum", *BOOLEANS]


@pytest.mark.parametrize("name", ["and", "xor", wide("or")])
def test_booleans(name: str) -> None:
    assert rows(5, 40).run(np.resize(LOOSE, 40), name, "i1").nodes["Scan"] == 1


@pytest.mark.wide
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("element", ["i8", "ui8", "i16", "i32", "ui32", "i64", "ui64", "i1"])
def test_integers(name: str, element: str) -> None:
    run = rows(5, 40).run(np.resize(LOOSE, 40), name, element)
    if name not in BOOLEANS or element == "i1":
        assert run.nodes["Scan"] == 1


@pytest.mark.parametrize(
    "element", ["bf16", "complex<f32>", *map(wide, ["f64", "f16", "f8E4M3FN"])]
)
def test_other_elements_are_written_in_order(element: str) -> None:
    run = rows(8, 30).run(np.resize(LOOSE, 30), "set", element)
    assert run.nodes["Scan"] == (2 if "complex" in element else 1)


def test_parts_of_complex_numbers() -> None:
    assert rows(5, 40).run(np.resize(LOOSE, 40), "add", "complex<f32>").nodes["Scan"] == 2


@pytest.mark.parametrize("name", ["add", *map(wide, ["multiply", "minimum", "maximum"])])
@pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16])
def test_half_floats_are_rounded_once(
    name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    x, u = (rng.standard_normal(dims).astype(dtype) for dims in ((5, 3), (40, 3)))
    text = rows(5, 40).text(name, "f16" if dtype == "f2" else "bf16")
    arguments = x, u, np.resize(LOOSE, 40).astype(np.int32)[:, None]
    found = against_xla(text, *arguments)
    assert found.nodes["Scan"] == (2 if name in ("minimum", "maximum") else 1)
    use_costs(monkeypatch, ordered_scatter_elements=0)
    before = against_xla(text, *arguments)
    assert before.nodes["ScatterElements"]
    for got, want in zip(found.actual, before.actual, strict=True):
        assert got[0].tobytes() == want[0].tobytes()


@pytest.mark.parametrize("name", ["minimum", "maximum"])
@pytest.mark.parametrize("width", [2, 40])
def test_extremes_keep_nan(name: str, width: int) -> None:
    """NaN in the operand, in updates, in an update that is dropped, and in both."""
    x = np.zeros((5, width), np.float32)
    x[0], x[1] = np.nan, -np.inf
    u = np.zeros((40, width), np.float32)
    u[3], u[7], u[9], u[11, 1] = np.nan, np.inf, -np.inf, np.nan
    indices = np.resize([0, 1, 2, 9, 3, 4, -1, 2, 1, 3, 2, 4], 40).astype(np.int32)
    indices[12:] = 2
    run = against_xla(rows(5, 40, width).text(name), x, u, indices[:, None]).bit_exact()
    assert run.nodes["Scan"] == 2 * (width == 2)


@pytest.mark.parametrize("name", ["minimum", "maximum"])
@pytest.mark.parametrize("where", ["operand", "updates", "infinities", "nowhere"])
def test_the_second_pass_for_nan(where: str, name: str) -> None:
    """It runs also where infinities cancel."""
    x, u = np.zeros((5, 2), np.float32), np.ones((40, 2), np.float32)
    u[8] = -1
    if where == "infinities":
        u[3], u[7] = np.inf, -np.inf
    elif where != "nowhere":
        {"operand": x, "updates": u}[where][4] = np.nan
    indices = np.resize([0, 1, 2, 3, 4], 40).astype(np.int32)[:, None]
    run = against_xla(rows(5, 40, 2).text(name), x, u, indices).bit_exact()
    assert run.nodes["If"] == 1


@pytest.mark.parametrize("element", ["i32", "bf16"])
def test_no_second_pass(element: str) -> None:
    """Integers are never NaN, and bf16 needs the pass as f32 does."""
    assert rows(5, 40).run(region="maximum", element=element).nodes["If"] == (element == "bf16")


@pytest.mark.parametrize("case", [FRAMES_LAST, PATCHES, *map(wide, [FRAMES, PAIRS, BATCHED_ROWS])])
@pytest.mark.parametrize("name", ["set", wide("add")])
@pytest.mark.parametrize("elements", [4, *map(wide, [8, 24])])
def test_windows_meet_in_order(
    case: Case, name: str, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_costs(monkeypatch, ordered_scatter_elements=elements, ordered_scatter_copies=64)
    for seed in range(2):
        run = case.run(region=name, seed=seed)
        assert (run.nodes["Scan"] or run.nodes["ScatterElements"]) == (
            elements < np.prod(case.updates)
        )


@pytest.mark.parametrize("index", ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"])
@pytest.mark.parametrize(
    "case", [rows(5, 40), Case((5, 2, 2), (40, 2), (40, 2), (0, 1), 1, (1,), (0, 1))]
)
def test_index_types(case: Case, index: str) -> None:
    """i32 holds some of them: there the arithmetic is in i32."""
    rng, least = np.random.default_rng(0), 0 if index.startswith("u") else -2
    run = case.run(rng.integers(least, 7, case.indices), "add", index=index)
    types = {
        x.dtype.name
        for node in run.program.model.graph
        if node.op_type in ("Max", "Min")
        for x in node.inputs[:1]
        if x is not None and x.dtype is not None
    }
    # The target's extremes of i64 are comparisons.
    assert types == (set() if index in ("ui32", "i64", "ui64") else {"INT32"})


@pytest.mark.parametrize("case", [Case((5, 2), (40,), (40, 2), (0,), 1, (1,), (0,)), VECTORLESS])
@pytest.mark.parametrize("name", ["add", "doubling"])
def test_indices_without_an_axis_of_vectors(case: Case, name: str) -> None:
    case.run(np.resize(LOOSE, 40), name)


BOUNDS = [2**31 - 1, -(2**31), 2**31 - 2, -1, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", ["add", *map(wide, ["set", "maximum"])])
@pytest.mark.parametrize("dims", [(3,), (3, 4), (1, 1), (4, 1, 2)])
def test_single_elements_have_a_border(name: str, dims: tuple[int, ...]) -> None:
    """All pairs of starts: before the first, behind the last, and far outside."""
    starts = list(itertools.product(BOUNDS, repeat=len(dims)))[::7]
    count, axes = len(starts), tuple(range(len(dims)))
    case = Case(dims, (count, len(dims)), (count,), axes, 1, (), axes)
    case.run(starts, name)


def dropped(height: int, count: int, name: str) -> Run:
    indices = np.random.default_rng(0).integers(-height, 2 * height, count)
    return rows(height, count).run(indices, name)


@pytest.mark.costly
@pytest.mark.parametrize("name", ["set", "add", "multiply", "minimum"])
def test_what_is_dropped_from_large_operands(name: str) -> None:
    """Few updates become neutral, or are filtered if they overwrite; more go to a spare row."""
    few, more = dropped(30, 8, name).nodes, dropped(30, 29, name).nodes
    is_written = name == "set"
    assert (few["Compress"], few["Concat"]) == (2 * is_written, 0)
    assert more["Concat"] == is_written
    assert dropped(5, 8, name).nodes["Concat"] == 1


SYMBOLIC = {
    "add": lambda x, i, u: x.at[i].add(u),
    "set": lambda x, i, u: x.at[i].set(u, mode="drop"),
    "max": lambda x, i, u: x.at[i].max(u),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_updates_go_through_a_loop(name: str) -> None:
    program = every_size(SYMBOLIC[name], "5, 3", "int32[n]", "n, 3", sizes=(1, 8, 17))
    assert program.report.nodes["Loop"] == 1 + (name == "max")
    assert not program.report.nodes["ScatterElements"]


def test_jax_segments_and_embeddings() -> None:
    rng = np.random.default_rng(0)
    data, ids = rng.integers(-9, 9, (41, 3)).astype("f4"), rng.integers(-2, 7, 41).astype("i4")
    for reduction in (jax.ops.segment_sum, jax.ops.segment_max, jax.ops.segment_prod):
        run = against_jax(lambda x, i, f=reduction: f(x, i, 5), data, ids).bit_exact()
        assert run.nodes["Scan"] == 1 + (reduction is jax.ops.segment_max)
    gradient = jax.grad(lambda w, i: (w[i] ** 2).sum())
    assert against_jax(gradient, data[:5], ids).bit_exact().nodes["Scan"] == 1
    assert against_jax(lambda x, i: jnp.zeros(5).at[i].add(x[:, 0]), data, ids).nodes["Scan"] == 0
