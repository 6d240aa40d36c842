"""scatter over its dimension numbers and combiners, and what each shape of it becomes."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_xla
from emitting import Emitted
from hypothesis import given, settings
from hypothesis import strategies as st
from scatter_case import CASES, ELEMENTS, FRAMES, FRAMES_LAST, NOWHERE, ROWS, SCALAR, Case
from target_costs import use_costs
from window_layouts import WindowLayout, window_layouts

from dialect_handlers.stablehlo.scatter.handler import scatter
from hlo2onnx import translate
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.types import numpy_type
from hlo2onnx.lowering.emitter import Emitter


@pytest.mark.costly
@pytest.mark.parametrize("region", ["set", "add", "maximum", "doubling"])
@pytest.mark.parametrize("name", CASES)
def test_dimension_numbers(name: str, region: str) -> None:
    CASES[name].run(region=region)


@pytest.mark.parametrize("name", ["rows", "pairs", "frames", "along", "window", "batched_rows"])
def test_known_indices(name: str) -> None:
    CASES[name].run(known=True)
    CASES[name].run(region="add", known=True)


def test_known_index_vectors_of_nothing() -> None:
    """Each window starts at 0 along every axis; of several the last one stays."""
    text = NOWHERE.text(known="[]").replace("dense<[]>", "dense<>")
    x, u = np.arange(20, dtype=np.float32).reshape(4, 5), np.arange(6, dtype=np.float32)
    against_xla(text, x, u.reshape(3, 2)).bit_exact()


@pytest.mark.costly
@pytest.mark.parametrize("index", ["i8", "i16", "i64", "ui8", "ui16", "ui32", "ui64"])
def test_index_types(index: str) -> None:
    edges = [0, 6, 7, 100, 3] if index[0] == "u" else [0, 6, 7, -1, -7]
    ROWS.run(edges, index=index)
    info = np.iinfo(numpy_type(index))
    ROWS.run([info.max, info.min, 3, info.max - 1, info.max // 2 + 1], index=index, region="add")
    SCALAR.run([info.max], index=index)


INTEGER_REGIONS = ["add", "multiply", "minimum", "maximum", "and", "or", "xor", "subtract", "keep"]


@pytest.mark.costly
@pytest.mark.parametrize("element", ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"])
@pytest.mark.parametrize("region", INTEGER_REGIONS)
def test_integers(element: str, region: str) -> None:
    ROWS.run([1, 1, 6, 9, 1], region, element)


@pytest.mark.parametrize("region", ["set", "add", "multiply", "maximum", "and", "or", "xor", "one"])
def test_booleans(region: str) -> None:
    ROWS.run([1, 1, 6, 9, 1], region, "i1" if region != "one" else "i32")


@pytest.mark.costly
@pytest.mark.parametrize("element", ["f64", "f16", "bf16", "f8E4M3FN", "f8E5M2"])
def test_set_moves_every_type(element: str) -> None:
    ROWS.run([1, 5, 6, 9, 1], "set", element)
    ROWS.with_unique().run([1, 5, 6, 9, 2], "set", element)
    SCALAR.run([5], "set", element)


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("region", ["minimum", "maximum"])
@pytest.mark.parametrize("case", [ELEMENTS, ELEMENTS.with_unique()], ids=["meet", "unique"])
def test_extremes_keep_nan(case: Case, region: str, element: str) -> None:
    x = [np.nan, 1, 2, -np.inf, np.inf, np.nan]
    u = [1, np.nan, 5, np.nan, 0, -np.inf, np.inf, np.nan, 3]
    indices = [0, 1, 1, 2, 2, 3, 4, 9, -1] if not case.unique else [0, 1, 9, 2, -1, 3, 4, 8, 7]
    import ml_dtypes

    dtype = {"f32": "f", "f64": "d", "f16": "e", "bf16": ml_dtypes.bfloat16}[element]
    run = against_xla(
        case.text(region, element),
        np.array(x, dtype), np.array(u, dtype), np.array(indices, np.int32)[:, None],
    )  # fmt: skip
    run.bit_exact()


@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("region", ["add", "multiply"])
def test_float_arithmetic(region: str, element: str) -> None:
    for case in (ROWS, ROWS.with_unique()):
        indices = np.array([[3], [1], [9], [6], [2 if case.unique else 3]], np.int32)
        rng = np.random.default_rng(0)
        import ml_dtypes

        dtype = {"f32": "f", "f16": "e", "bf16": ml_dtypes.bfloat16}[element]
        x, u = (rng.standard_normal(shape).astype(dtype) for shape in ((7, 3), (5, 3)))
        against_xla(case.text(region, element), x, u, indices).close()


@pytest.mark.parametrize("element", ["complex<f32>", "complex<f64>"])
@pytest.mark.parametrize("region", ["set", "add", "multiply"])
@pytest.mark.parametrize("case", [ROWS, SCALAR, ROWS.with_unique()])
def test_complex(case: Case, region: str, element: str) -> None:
    rng = np.random.default_rng(0)
    dtype = np.complex64 if "32" in element else np.complex128
    x, u = (
        (rng.integers(-3, 4, dims) + 1j * rng.integers(-3, 4, dims)).astype(dtype)
        for dims in (case.operand, case.updates)
    )
    indices = np.resize([3, 1, 9, 6, 2 if case.unique else 3], case.indices).astype(np.int32)
    against_xla(case.text(region, element), x, u, indices).close()


TWO_OPERANDS = """
module {{ func.func public @main(%x: tensor<6xf32>, %y: tensor<6xi32>, %i: tensor<9x1xi32>,
    %u: tensor<9xf32>, %v: tensor<9xi32>) -> (tensor<6xf32>, tensor<6xi32>) {{
  %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{{
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = {unique} }}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
      {body}
  }}) : (tensor<6xf32>, tensor<6xi32>, tensor<9x1xi32>, tensor<9xf32>, tensor<9xi32>)
    -> (tensor<6xf32>, tensor<6xi32>)
  return %0#0, %0#1 : tensor<6xf32>, tensor<6xi32>
}} }}
"""
INDEPENDENT = """
  %e = stablehlo.add %c, %a : tensor<f32>
  stablehlo.return %e, %d : tensor<f32>, tensor<i32>
"""
COUPLED = """
  %p = stablehlo.compare GT, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %e = stablehlo.select %p, %a, %c : tensor<i1>, tensor<f32>
  %f = stablehlo.select %p, %b, %d : tensor<i1>, tensor<i32>
  stablehlo.return %e, %f : tensor<f32>, tensor<i32>
"""


@pytest.mark.parametrize("unique", ["true", "false"])
@pytest.mark.parametrize("body", [INDEPENDENT, COUPLED])
def test_two_operands(body: str, unique: str) -> None:
    indices = [0, 9, 1, 5, -1, 2, 3, 7, 4] if unique == "true" else [0, 9, 1, 1, -1, 0, 3, 3, 3]
    rng = np.random.default_rng(0)
    x, u = rng.permutation(15).astype(np.float32)[:6], rng.permutation(15).astype(np.float32)[:9]
    run = against_xla(
        TWO_OPERANDS.format(body=body, unique=unique),
        x, np.arange(6, dtype=np.int32), np.array(indices, np.int32)[:, None],
        u, np.arange(10, 19, dtype=np.int32),
    )  # fmt: skip
    run.bit_exact()
    assert run.nodes["Loop"] == (unique == "false" and body == COUPLED)


# -- the order of updates, and windows that are dropped ----------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("region", ["set", "add", "doubling"])
def test_window_partly_outside_is_dropped_whole(region: str) -> None:
    case = Case((6,), (1,), (3,), (0,), 0, window=(0,))
    for start in (-1, 0, 3, 4, 6):
        case.run([start], region)
        case.run([start], region, known=True)
    FRAMES.run([7, 6, -1, 8], region)


@pytest.mark.parametrize("case", [ROWS, ROWS.with_unique(), ELEMENTS, ELEMENTS.with_unique()])
def test_dropped_update_does_not_undo_element_0(case: Case) -> None:
    inside = list(range(5)) if case.unique else [0, 3, 0, 1, 2]
    indices = np.resize([99], case.indices[0])
    indices[: len(inside) - 1] = inside[: len(inside) - 1]
    case.run(indices)
    case.run(indices[::-1])


@pytest.mark.wide
@pytest.mark.parametrize("operand", [3, 4000])
def test_drops_in_small_and_large_operands(operand: int) -> None:
    """A spare element takes what a small operand drops; for a large one updates are filtered."""
    for unique in (False, True):
        case = Case((operand, 2), (6, 1), (6, 2), (0,), 1, (1,), (0,), unique=unique)
        for indices in ([0, 9999, 1, -1, 2, 5000], [-1] * 6):
            for region in ("set", "add", "doubling"):
                case.run(indices, region)


def test_overlapping_windows_are_written_in_order() -> None:
    for case in (FRAMES, FRAMES_LAST):
        case.run([0, 2, 1, 2])
        case.run([2, 1, 0, 7])


@pytest.mark.wide
@pytest.mark.parametrize("region", ["set", "add"])
def test_many_duplicates_on_two_threads(region: str) -> None:
    case = Case((500, 64), (10_000, 1), (10_000, 64), (0,), 1, window=(1,), inserted=(0,))
    for seed in range(5):
        indices = np.random.default_rng(seed).integers(-5, 505, (10_000, 1))
        case.run(indices, region, "i32", seed=seed)


@pytest.mark.parametrize("region", ["set", "add", "maximum"])
def test_very_many_updates(region: str) -> None:
    case = Case((40, 8), (140_001, 1), (140_001, 8), (0,), 1, window=(1,), inserted=(0,))
    indices = np.random.default_rng(0).integers(-2, 42, (140_001, 1))
    assert case.run(indices, region, "i32").nodes["Scan"] == (region != "set")
    windows = Case((50, 8), (140_001, 1), (140_001, 2, 1), (0,), 1, (1, 2))
    indices = np.random.default_rng(0).integers(-2, 52, (140_001, 1))
    windows.run(indices, region, "ui8")


# -- what becomes of it ------------------------------------------------------------------------


def test_known_index_needs_no_guard() -> None:
    SCALAR.run([3], known=True).graph_is("Slice", "Slice", "Reshape", "Concat")
    Case((70, 3), (1,), (3,), (0,), 0, (0,), (0,)).run([3], known=True).graph_is(
        "ScatterND", "Reshape"
    )


def test_small_known_window_is_read_at_once() -> None:
    case = Case((16, 17), (2,), (2, 2), (0, 1), 0, window=(0, 1))
    case.run([3, 14], "add", known=True).graph_is("Slice", "Add", "ScatterND")


def test_known_index_outside_changes_nothing() -> None:
    SCALAR.run([7], known=True).graph_is("Identity")


def test_unique_indices_are_one_scatter_nd() -> None:
    run = ROWS.with_unique().run([0, 2, 1, 5, 4])
    assert run.nodes["ScatterND"] == 1
    ROWS.run([0, 2, 1, 5, 4], known=True).graph_is("ScatterND")


@pytest.mark.wide
@pytest.mark.parametrize("name", ["rows", "pairs", "batched_rows", "frames", "frames_last"])
def test_few_possible_duplicates_are_one_scatter_nd(name: str) -> None:
    for region, known in itertools.product(("set", "add"), (False, True)):
        run = CASES[name].run(np.zeros(CASES[name].indices), region, known=known)
        assert [run.nodes[node] for node in ("ScatterElements", "ScatterND")] == [0, 1]


def test_possible_duplicates_are_not_combined_by_a_scatter_nd_without_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_costs(monkeypatch, ordered_scatter_elements=0)
    for region in ("add", "doubling"):
        ROWS.run([0, 2, 1, 5, 4], region).has_no("ScatterND")
        ROWS.run([0, 2, 1, 5, 0], region, known=True).has_no("ScatterND")


def test_single_elements_are_written_in_order() -> None:
    ELEMENTS.run(np.zeros(9), known=True).graph_is("ScatterElements")


@pytest.mark.parametrize("rows", [255, 256, 257])
def test_indices_that_reach_the_last_row(rows: int) -> None:
    """Of 256 rows and more, each ui8 names one: nothing is dropped, and nothing is asked."""
    case = Case((rows, 2), (4, 1), (4, 2), (0,), 1, window=(1,), inserted=(0,), unique=True)
    run = case.run([255, 0, 254, 1], index="ui8")
    assert (run.nodes["ScatterND"], run.nodes.total() <= 3) == (1, rows > 255)


@pytest.mark.parametrize("rows", [127, 128, 129])
def test_negative_indices_are_dropped_whatever_the_extent(rows: int) -> None:
    case = Case((rows, 2), (4, 1), (4, 2), (0,), 1, window=(1,), inserted=(0,), unique=True)
    case.run([127, -1, 126, -128], index="i8")
    Case((rows, 2), (1,), (2,), (0,), 0, window=(0,), inserted=(0,)).run([-1], index="i8")


@pytest.mark.parametrize("first", [300, 250])
def test_each_column_has_its_own_limit(first: int) -> None:
    """ui8 indices that are inside along one axis, and may be outside along the other."""
    for case in (
        Case((first, 550 - first), (4, 2), (4,), (0, 1), 1, inserted=(0, 1), unique=True),
        Case((first, 550 - first), (4, 2), (4,), (1, 0), 1, inserted=(0, 1), unique=True),
    ):
        case.run([[255, 255], [249, 250], [250, 249], [3, 5]], index="ui8")


@pytest.mark.parametrize("known", [False, True])
def test_index_columns_in_another_order_than_the_axes(known: bool) -> None:
    """Windows are whole rows at unique places inside: the index vectors' columns are swapped."""
    case = Case((256, 260, 2), (4, 2), (4, 2), (1, 0), 1, (1,), (0, 1), unique=True)
    indices = [[255, 7], [7, 255], [0, 1], [1, 0]]
    run = case.run(indices, index="ui8", known=known)
    assert run.nodes["ScatterND"] == 1


JAX_CASES = {
    "set": lambda x, i, u: x.at[i].set(u),
    "add": lambda x, i, u: x.at[i].add(u),
    "mul": lambda x, i, u: x.at[i].mul(u),
    "min": lambda x, i, u: x.at[i].min(u),
    "max": lambda x, i, u: x.at[i].max(u),
    "apply": lambda x, i, u: x.at[i].apply(jnp.sin),
    "clip": lambda x, i, u: x.at[i].add(u, mode="clip"),
    "drop": lambda x, i, u: x.at[i].set(u, mode="drop"),
    "fill": lambda x, i, u: x.at[i].multiply(u, mode="fill"),
    "promised": lambda x, i, u: x.at[i % 9].add(u, mode="promise_in_bounds"),
    "unique": lambda x, i, u: x.at[jnp.arange(20) - 3].set(u, unique_indices=True),
    "iota": lambda x, i, u: x.at[jnp.arange(0, 9, 2)].set(u[:5]),
    "reversed": lambda x, i, u: x.at[jnp.arange(8, -1, -1)].add(u[:9]),
    "column": lambda x, i, u: x.at[:, i % 4].set(u[:9, :1]),
    "pair": lambda x, i, u: x.at[i, i % 4].add(u[:, 0]),
    "slice": lambda x, i, u: x.at[2:5, 1:3].add(u[:3, :2]),
    "strided": lambda x, i, u: x.at[::3].set(u[:3]),
    "one": lambda x, i, u: x.at[i[0]].set(u[0]),
    "segment_sum": lambda x, i, u: jax.ops.segment_sum(u, i, 9),
    "segment_max": lambda x, i, u: jax.ops.segment_max(u, i, 9),
    "take": lambda x, i, u: jax.grad(lambda y: (jnp.take(y, i, axis=0) * u).sum())(x),
    "along": lambda x, i, u: jax.grad(
        lambda y: (jnp.take_along_axis(y, i[:, None] % 9, axis=0) * u[:, :1]).sum()
    )(x[:, :1]),
    "bincount": lambda x, i, u: jnp.bincount(i, length=9),
    "histogram": lambda x, i, u: jnp.histogram(u, bins=7)[0],
    "vmap": lambda x, i, u: jax.vmap(lambda y, j, v: y.at[j].add(v))(x, i[:9, None] % 4, u[:9, :1]),
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("name", JAX_CASES)
def test_jax(name: str) -> None:
    rng = np.random.default_rng(0)
    x, u = (rng.standard_normal(shape).astype(np.float32) for shape in ((9, 4), (20, 4)))
    i = rng.integers(-12, 12, 20).astype(np.int32)
    program = translate(jax.jit(JAX_CASES[name]).lower(x, i, u))
    assert program.verify(x, i, u).ok


@pytest.mark.wide
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    window_layouts(),
    st.sampled_from(["set", "set", "add", "maximum", "doubling"]),
    st.sampled_from(["i32", "i64", "ui8", "i16"]),
    st.booleans(),
    st.integers(0, 99),
)
def test_any_dimension_numbers(
    drawn: WindowLayout, region: str, index: str, known: bool, seed: int
) -> None:
    case = Case(
        drawn.operand, drawn.indices, drawn.windows, drawn.indexed, drawn.vector,
        drawn.kept, drawn.dropped, drawn.batching,
    )  # fmt: skip
    known = known and 0 not in case.indices
    case.run(region=region, index=index, known=known, seed=seed)


def test_rows_are_written_on_targets_whose_range_is_wrong() -> None:
    """The last update of each row wins; the positions of few updates are constants."""
    shapes = [jax.ShapeDtypeStruct(dims, np.float32) for dims in ((7, 4), (30, 4))]
    index = jax.ShapeDtypeStruct((30,), np.int32)
    lowered = jax.jit(lambda x, i, u: x.at[i].set(u)).lower(shapes[0], index, shapes[1])
    assert not translate(lowered, target="openvino").report.nodes["Range"]


LARGE = Case((5000,), (1,), (4745,), (0,), 0, window=(0,))
WINDOWS: list[tuple[Case, str, str, str]] = [
    # computed, and inside: 255 + 4745 = 5000
    (LARGE, "add", "ui8", "Cast Add Slice Add Slice Slice Concat"),
    (LARGE, "set", "ui8", "Cast Slice Add Slice Concat"),
]


@pytest.mark.parametrize(("case", "region", "index", "nodes"), WINDOWS)
def test_single_windows(case: Case, region: str, index: str, nodes: str) -> None:
    run = case.run([255], region, index=index)
    assert " ".join(node.op_type for node in run.program.model.graph) == nodes


@pytest.mark.parametrize("updates", [(1, 3), (3,), (2, 3)])
def test_rows_of_a_stack(updates: tuple[int, ...]) -> None:
    """What is written to a buffer that a loop returns as a stack of rows is one whole row."""

    def build(em: Emitter, x: oir.Value, i: oir.Value, u: oir.Value) -> list[oir.Value]:
        em.environment = {"x": (x,), "i": (i,), "u": (u,)}
        em.rows[(x,)] = (x,)
        op: Any = SimpleNamespace(operands=["x", "i", "u"], results=["x"])
        if np.prod(updates) == 3:
            assert scatter(em, op, scatter_dimension_numbers=None) == [(x,)]
            assert [tuple(part.shape or ()) for part in em.rows[(x,)]] == [(1, 3)]
        else:
            with pytest.raises(UnsupportedOp, match="less than a whole row"):
                scatter(em, op, scatter_dimension_numbers=None)
        return []

    Emitted(build, {"x": np.zeros((7, 3)), "i": np.zeros(1, np.int32), "u": np.zeros(updates)})
