"""while, case and if, from MLIR text and as JAX spells them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import Run, against_xla
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from rule_names import LOOP_RULE_NAMES

import hlo2onnx

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)


def against_jax(function: Callable[..., Any], *arguments: Any) -> Run:
    """The function as JAX lowers it, in loops as lowering makes them."""
    text = jax.jit(function, keep_unused=True).lower(*arguments).as_text()
    return against_xla(text, *jax.tree.leaves(arguments), without=LOOP_RULE_NAMES)


def loops(run: Run) -> list[oir.Node]:
    """The Loops of the model, outer before inner."""
    return [node for node in run.program.model.graph.all_nodes() if node.op_type == "Loop"]


def states(loop: oir.Node) -> list[tuple[int, ...]]:
    """The shapes of what a Loop carries."""
    return [tuple(map(int, value.shape or ())) for value in loop.inputs[2:] if value is not None]


def body(loop: oir.Node) -> oir.Graph:
    """What a Loop does in a trip."""
    return loop.attributes["body"].as_graph()


def stacked(loop: oir.Node) -> list[tuple[int, ...]]:
    """The shapes of what a Loop stacks."""
    return [tuple(map(int, value.shape or ())) for value in loop.outputs[len(loop.inputs) - 2 :]]


# -- if and case ------------------------------------------------------------------------------

IF = """
func.func public @main(%arg0: tensor<i1>, %arg1: tensor<{type}>) -> (tensor<{type}>, tensor<{type}>) {{
  %0:2 = "stablehlo.if"(%arg0) ({{
    %1 = stablehlo.add %arg1, %arg1 : tensor<{type}>
    stablehlo.return %1, %arg1 : tensor<{type}>, tensor<{type}>
  }}, {{
    stablehlo.return %arg1, %arg1 : tensor<{type}>, tensor<{type}>
  }}) : (tensor<i1>) -> (tensor<{type}>, tensor<{type}>)
  return %0#0, %0#1 : tensor<{type}>, tensor<{type}>
}}
"""  # noqa: E501


@pytest.mark.parametrize("predicate", [True, False])
@pytest.mark.parametrize(
    "type_", ["3xf32", "i8", "2xi1", "2xui64", "0x2xf32", "3xbf16", "f64", "2xcomplex<f32>"]
)
def test_if(type_: str, predicate: bool) -> None:
    values = np.array([1, 0, 3])[: 1 if "x" not in type_ else int(type_[0])]
    dtypes = {"f32": "f4", "i8": "i1", "i1": "?", "ui64": "u8", "f64": "f8", "complex<f32>": "c8"}
    element = type_.rsplit("x", 1)[-1] if "complex" not in type_ else "complex<f32>"
    dtype = ml_dtypes.bfloat16 if element == "bf16" else np.dtype(dtypes[element])
    x = values.astype(dtype)
    x = np.zeros((0, 2), dtype) if type_.startswith("0") else x
    x = x.reshape(()) if "x" not in type_ else x
    against_xla(IF.format(type=type_), np.array(predicate), x).bit_exact()


def test_if_of_a_constant_is_its_branch() -> None:
    text = """func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.constant dense<false> : tensor<i1>
      %1 = "stablehlo.if"(%0) ({
        %2 = stablehlo.exponential %arg0 : tensor<3xf32>
        stablehlo.return %2 : tensor<3xf32>
      }, {
        %2 = stablehlo.tanh %arg0 : tensor<3xf32>
        stablehlo.return %2 : tensor<3xf32>
      }) : (tensor<i1>) -> tensor<3xf32>
      return %1 : tensor<3xf32>
    }"""
    against_xla(text).close().graph_is("Tanh")


def case_text(branches: int, element: str = "i32") -> str:
    """case over `branches` regions; branch k multiplies by k + 2."""
    regions = ", ".join(
        f"""{{
      %c = stablehlo.constant dense<{k + 2}> : tensor<2xi32>
      %1 = stablehlo.multiply %arg1, %c : tensor<2xi32>
      stablehlo.return %1 : tensor<2xi32>
    }}"""
        for k in range(branches)
    )
    return f"""func.func public @main(%arg0: tensor<i32>, %arg1: tensor<2xi32>) -> tensor<2xi32> {{
      %0 = "stablehlo.case"(%arg0) ({regions}) : (tensor<i32>) -> tensor<2xi32>
      return %0 : tensor<2xi32>
    }}"""


@pytest.mark.parametrize("index", [-(2**31), -1, 0, 1, 2, 3, 4, 5, 6, 7, 2**31 - 1])
@pytest.mark.parametrize("branches", [1, 2, 3, 7])
def test_case_out_of_range_takes_the_last_branch(branches: int, index: int) -> None:
    x = np.array([5, 7], np.int32)
    run = against_xla(case_text(branches), np.array(index, np.int32), x).bit_exact()
    assert run.nodes["If"] == branches - 1


@pytest.mark.parametrize("index", [-(2**31), -1, 0, 1, 2, 3])
@pytest.mark.parametrize("branches", [1, 3])
def test_case_of_a_constant_is_its_branch(branches: int, index: int) -> None:
    text = case_text(branches).replace('"stablehlo.case"(%arg0)', '"stablehlo.case"(%k)', 1)
    text = text.replace("%0 =", f"%k = stablehlo.constant dense<{index}> : tensor<i32>\n%0 =", 1)
    x = np.array([5, 7], np.int32)
    against_xla(text, np.array(0, np.int32), x).bit_exact().has_no("If")


def test_lax_cond_keeps_its_predicate() -> None:
    run = against_jax(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), np.array(True), X)
    run.close().graph_is("If", "Sin", "Cos")


@pytest.mark.parametrize("index", [-5, 0, 1, 2, 9])
def test_lax_switch(index: int) -> None:
    branches = [jnp.sin, jnp.cos, lambda x: x * 2 + W[0]]
    against_jax(lambda i, x: lax.switch(i, branches, x), np.int32(index), X).close()


def test_branch_in_a_scalar_region_becomes_where() -> None:
    text = """func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.map"(%arg0, %arg1) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %2 = "stablehlo.if"(%1) ({
          stablehlo.return %a : tensor<f32>
        }, {
          %3 = stablehlo.negate %b : tensor<f32>
          stablehlo.return %3 : tensor<f32>
        }) : (tensor<i1>) -> tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    against_xla(text).close().graph_is("Less", "Neg", "Where")


# -- while with a condition ---------------------------------------------------------------------


@pytest.mark.parametrize("start", [0.0, 60.0])
def test_exit_that_depends_on_data(start: float) -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(
            lambda c: (c[1] < 100) & (c[0].sum() < 50), lambda c: (c[0] * 1.5 + 1, c[1] + 1), (x, 0)
        )

    run = against_jax(f, np.full(3, start, np.float32)).close()
    (loop,) = loops(run)
    assert loop.inputs[0] is None and loop.inputs[1] is not None


def test_captured_two_levels_deep() -> None:
    def f(x: Any, w: Any) -> Any:
        def inner(c: Any) -> Any:
            return c @ w + x

        def outer(c: Any) -> Any:
            return lax.while_loop(lambda d: jnp.abs(d).sum() < 100, inner, c) * 1.5

        return lax.while_loop(lambda c: c.max() < 30, outer, x)

    run = against_jax(f, np.ones((2, 3), np.float32), np.eye(3, dtype=np.float32)).close()
    assert [states(loop) for loop in loops(run)] == [[(2, 3)], [(2, 3)]]


def test_vmapped_while() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda c: c < 10, lambda c: c * 2 + 1, x)

    against_jax(jax.vmap(f), np.array([0.5, 3, 11, -0.9], np.float32)).close()


CARRIED: list[tuple[str, Any]] = [
    ("i8", np.array([100, -3], np.int8)),
    ("u32", np.array([2**31, 7], np.uint32)),
    ("bool", np.array([True, False])),
    ("bf16", np.array([1.5, -2], ml_dtypes.bfloat16)),
    ("f16", np.array([1.5, -2], np.float16)),
    ("complex", np.array([1 + 2j, -0.5j], np.complex64)),
    ("empty", np.zeros((0, 2), np.float32)),
    ("scalar", np.float32(2)),
]


@pytest.mark.parametrize("x", [item[1] for item in CARRIED], ids=[item[0] for item in CARRIED])
@pytest.mark.parametrize("bound", [0, 1, 4])
@pytest.mark.parametrize("counted", [True, False])
def test_carried_element_types(x: Any, bound: int, counted: bool) -> None:
    def f(x: Any, y: Any, n: Any) -> Any:
        def body(c: Any) -> Any:
            x, y, i = c
            return (y, ~x, i + 1) if x.dtype == bool else (y, x + y, i + 1)

        return lax.while_loop(lambda c: (c[2] < n) & (counted | (c[2] > -9)), body, (x, y, 0))

    against_jax(f, x, x[..., ::-1] if np.ndim(x) else x, np.int32(bound)).close()


TOKENS = """func.func public @main(%arg0: tensor<f32>) -> tensor<f32> {
  %t = stablehlo.after_all : !stablehlo.token
  %0:2 = stablehlo.while(%a = %arg0, %b = %t) : tensor<f32>, !stablehlo.token
    cond {
      %c = stablehlo.constant dense<9.0> : tensor<f32>
      %1 = stablehlo.compare LT, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %a, %a : tensor<f32>
      %2 = stablehlo.after_all %b : !stablehlo.token
      stablehlo.return %1, %2 : tensor<f32>, !stablehlo.token
    }
  return %0#0 : tensor<f32>
}"""


FOUR_BITS = """
func.func public @main(%arg0: tensor<3xi8>, %arg1: tensor<i1>) -> (tensor<3xi8>, tensor<3xi8>) {{
  %x = stablehlo.convert %arg0 : (tensor<3xi8>) -> tensor<3x{e}>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %k = stablehlo.constant dense<1> : tensor<i32>
  %1:2 = "stablehlo.while"(%z, %x) ({{
  ^bb0(%i: tensor<i32>, %a: tensor<3x{e}>):
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}, {{
  ^bb0(%i: tensor<i32>, %a: tensor<3x{e}>):
    %j = stablehlo.add %i, %k : tensor<i32>
    %b = stablehlo.add %a, %x : tensor<3x{e}>
    stablehlo.return %j, %b : tensor<i32>, tensor<3x{e}>
  }}) : (tensor<i32>, tensor<3x{e}>) -> (tensor<i32>, tensor<3x{e}>)
  %2 = "stablehlo.if"(%arg1) ({{
    stablehlo.return %1#1 : tensor<3x{e}>
  }}, {{
    %b = stablehlo.add %1#1, %x : tensor<3x{e}>
    stablehlo.return %b : tensor<3x{e}>
  }}) : (tensor<i1>) -> tensor<3x{e}>
  %3 = stablehlo.convert %1#1 : (tensor<3x{e}>) -> tensor<3xi8>
  %4 = stablehlo.convert %2 : (tensor<3x{e}>) -> tensor<3xi8>
  return %3, %4 : tensor<3xi8>, tensor<3xi8>
}}
"""


@pytest.mark.parametrize("element", ["i4", "ui4"])
@pytest.mark.parametrize("predicate", [True, False])
def test_four_bits_go_through_loops_and_branches(element: str, predicate: bool) -> None:
    """The runtime's Loop and If do not carry them as they are."""
    x = np.array([1, -8, 5], np.int8)
    against_xla(FOUR_BITS.format(e=element), x, np.array(predicate)).bit_exact()


def test_tokens_are_not_carried() -> None:
    run = hlo2onnx.translate(TOKENS)
    assert float(run(np.float32(1))) == 16
    (loop,) = [node for node in run.model.graph.all_nodes() if node.op_type == "Loop"]
    assert states(loop) == [()]


def test_constants_swapped_and_repeated_states_are_returned() -> None:
    text = """func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<i32>)
        -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
      %z = stablehlo.constant dense<0> : tensor<i32>
      %0:4 = stablehlo.while(%a = %arg0, %b = %arg0, %c = %arg0, %i = %z)
          : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<i32>
        cond {
          %1 = stablehlo.multiply %i, %i : tensor<i32>
          %2 = stablehlo.compare LT, %1, %arg1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %2 : tensor<i1>
        } do {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %k = stablehlo.constant dense<[3.0, 4.0]> : tensor<2xf32>
          %1 = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %b, %c, %k, %1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<i32>
        }
      return %0#0, %0#1, %0#2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
    }"""
    for bound in (0, 1, 2, 9):
        against_xla(text, np.array([1, 2], np.float32), np.array(bound, np.int32)).bit_exact()


# -- while with a counter -------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [-3, 0, 2, 3, 7])
@pytest.mark.parametrize("start", [0, 2])
def test_fori_loop_to_a_bound_given_at_run_time(start: int, bound: int) -> None:
    def f(x: Any, n: Any) -> Any:
        return lax.fori_loop(start, n, lambda i, c: c * 2 + i, x)

    run = against_jax(f, X, np.int32(bound)).close()
    (loop,) = loops(run)
    assert states(loop) == [(5, 3)] and loop.inputs[1] is None


COUNT = """func.func public @main(%arg0: tensor<{t}>, %arg1: tensor<{t}>, %arg2: tensor<i64>)
    -> (tensor<{t}>, tensor<i64>) {{
  %s = stablehlo.constant dense<{start}> : tensor<{t}>
  %b = stablehlo.constant dense<{bound}> : tensor<{t}>
  %0:2 = stablehlo.while(%i = {first}, %n = %arg2) : tensor<{t}>, tensor<i64>
    cond {{
      %1 = stablehlo.compare {direction}, {operands} : (tensor<{t}>, tensor<{t}>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }} do {{
      %k = stablehlo.constant dense<{step}> : tensor<{t}>
      %one = stablehlo.constant dense<1> : tensor<i64>
      %1 = stablehlo.{op} %i, %k : tensor<{t}>
      %2 = stablehlo.multiply %n, %n : tensor<i64>
      %3 = stablehlo.add %2, %one : tensor<i64>
      stablehlo.return %1, %3 : tensor<{t}>, tensor<i64>
    }}
  return %0#0, %0#1 : tensor<{t}>, tensor<i64>
}}"""
DTYPES = {"i8": "i1", "ui8": "u1", "i32": "i4", "ui32": "u4", "i64": "i8", "ui64": "u8"}


@st.composite
def counting(draw: st.DrawFn) -> tuple[str, str, int, int]:
    """A loop that counts, whose start and bound are constants or arguments."""
    t = draw(st.sampled_from(sorted(DTYPES)))
    info = np.iinfo(DTYPES[t])
    direction = draw(st.sampled_from(["LT", "LE", "GT", "GE", "NE"]))
    step = draw(st.sampled_from([1, 1, 2, 3]))
    up = direction in ("LT", "LE", "NE")
    edge = draw(st.sampled_from([0, info.min, info.max]))
    span = st.integers(0, 9) if direction == "NE" else st.integers(-4, 9)
    distance = draw(span) * (step if direction == "NE" else 1)
    # The counter must be able to get past its bound.
    start = min(max(edge, info.min + 8), info.max - 40) if up else min(
        max(edge, info.min + 40), info.max - 8
    )  # fmt: skip
    bound = start + (distance if up else -distance)
    swap = draw(st.booleans())
    mirrored = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}
    limit = draw(st.sampled_from(["%b", "%arg1"]))
    text = COUNT.format(
        t=t,
        start=start,
        bound=bound,
        step=step,
        direction=mirrored[direction] if swap else direction,
        operands=f"{limit}, %i" if swap else f"%i, {limit}",
        first=draw(st.sampled_from(["%s", "%arg0"])),
        op="add" if up else "subtract",
    )
    return text, t, start, bound


@settings(max_examples=40, deadline=None, derandomize=True)
@given(counting())
def test_counters(case: tuple[str, str, int, int]) -> None:
    text, t, start, bound = case
    dtype = np.dtype(DTYPES[t])
    against_xla(
        text, np.array(start, dtype), np.array(bound, dtype), np.array(2, np.int64)
    ).bit_exact()


def test_counters_that_wrap() -> None:
    """The second counter passes the end of its type several times."""

    def f(j: Any) -> Any:
        return lax.fori_loop(0, 20, lambda i, c: (c[0] + np.int8(100), c[1] + c[0]), (j, j))

    run = against_jax(f, np.int8(3)).bit_exact()
    assert states(loops(run)[0]) == [()]


@pytest.mark.parametrize("step", [-3, 300, -(2**31)])
def test_counters_with_any_step(step: int) -> None:
    def f(j: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, c: (c[0] + jnp.int32(step), c[1] ^ c[0]), (j, j))

    run = against_jax(f, np.int32(7)).bit_exact()
    assert states(loops(run)[0]) == [()]


@pytest.mark.parametrize("inclusive", [False, True])
def test_a_falling_counter_is_an_index(inclusive: bool) -> None:
    """It starts and ends outside of the array, where the index is clamped."""

    def f(x: Any, start: Any, bound: Any) -> Any:
        def goes_on(c: Any) -> Any:
            return c[0] >= bound if inclusive else c[0] > bound

        def body(c: Any) -> Any:
            return c[0] - 1, c[1] * 2 + lax.dynamic_slice(x, (c[0],), (1,))[0]

        return lax.while_loop(goes_on, body, (start.astype(jnp.int32), jnp.int32(0)))

    x = np.array([1, 5, 2, 8, 3], np.int32)
    for start, bound in ((9, -4), (3, 1), (0, -3), (2, 5)):
        against_jax(f, x, np.uint8(start), np.int32(bound)).bit_exact()


def test_one_trip_is_the_body_and_none_is_nothing() -> None:
    x = np.ones(3, np.float32)
    for trips, nodes in ((1, ["Exp"]), (0, ["Identity"])):
        run = against_jax(lambda x, n=trips: lax.fori_loop(0, n, lambda i, c: jnp.exp(c), x), x)
        run.close().graph_is(*nodes)


# -- scan -----------------------------------------------------------------------------------------


def rnn(x: Any, w: Any, reverse: bool = False) -> Any:
    def body(c: Any, row: Any) -> Any:
        c = jnp.tanh(c @ w + row)
        return c, (c * 2, c.sum())

    return lax.scan(body, jnp.zeros(3), x, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_stacks_its_outputs_and_captures_its_weights(reverse: bool) -> None:
    run = against_jax(lambda x, w: rnn(x, w, reverse), X, W).close()
    (loop,) = loops(run)
    assert states(loop) == [(3,)]
    assert stacked(loop) == [(5, 3), (5,)]
    run.has_no("ScatterND", "ScatterElements", "Clip", "Max", "Min")


def test_scan_with_a_length_only() -> None:
    run = against_jax(lambda c: lax.scan(lambda c, _: (c * 2, c), c, length=4), W).close()
    assert stacked(loops(run)[0]) == [(4, 3, 3)]


def test_scan_of_nothing() -> None:
    against_jax(rnn, X[:0], W).close().has_no("Loop")


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, ml_dtypes.bfloat16, np.complex64, np.uint32])
def test_scan_in_every_kind_of_type(dtype: Any) -> None:
    x = np.array([[1, 0, 3], [2, 2, 1]]).astype(dtype)
    run = against_jax(lambda x: lax.scan(lambda c, r: (r, jnp.stack([c, r])), x[0], x), x)
    run.bit_exact()
    parts = 2 if dtype == np.complex64 else 1
    assert stacked(loops(run)[0]) == [(2, 2, 3)] * parts


def test_nested_scans() -> None:
    def f(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, row: (c + row, rnn(x + c, w)[1][0]), jnp.zeros(3), x)

    run = against_jax(f, X, W).close()
    assert [stacked(loop) for loop in loops(run)] == [[(5, 5, 3)], [(5, 3)]]


def test_buffers_that_are_not_stacks_are_carried() -> None:
    """Read while written, written in part, written off the end, or given a bound at run time."""

    def fibonacci(y: Any, i: Any) -> Any:
        row = y[jnp.maximum(i - 1, 0)] + y[jnp.maximum(i - 2, 0)]
        return lax.dynamic_update_index_in_dim(y, row, i, 0)

    def write(offset: int) -> Callable[..., Any]:
        return lambda i, y: lax.dynamic_update_index_in_dim(y, W[0] * i, i + offset, 0)

    cases: list[tuple[int, Callable[..., Any]]] = [
        (5, lambda i, y: fibonacci(y, i)),
        (3, write(0)),
        (5, write(2)),
        (5, write(-1)),
    ]
    for bound, body in cases:
        run = against_jax(lambda y, n=bound, b=body: lax.fori_loop(0, n, b, y), X).close()
        assert states(loops(run)[0]) == [(5, 3)]
        assert not stacked(loops(run)[0])
    for bound in (0, 5, 7):
        run = against_jax(lambda y, n: lax.fori_loop(0, n, write(0), y), X, np.int32(bound)).close()
        assert not stacked(loops(run)[0])


def test_a_buffer_that_becomes_another_state_is_carried() -> None:
    def body(i: Any, states: Any) -> Any:
        y, _ = states
        return lax.dynamic_update_index_in_dim(y, W[0] * i, i, 0), y

    run = against_jax(lambda y: lax.fori_loop(0, 5, body, (y, y)), X).close()
    assert states(loops(run)[0]) == [(5, 3), (5, 3)]
    assert not stacked(loops(run)[0])


ROW_BY_ROW: dict[str, Callable[[Any, Any], Any]] = {
    "row": lambda y, i: y.at[i].set(W[0] * i),
    "downwards": lambda y, i: y.at[4 - i].set(W[0] * i),
    "known_columns": lambda y, i: y.at[i, :].set(W[0] * i),
    "broadcast": lambda y, i: y.at[i].set(i.astype(y.dtype)),
    "promised": lambda y, i: y.at[i].set(W[0] * i, mode="promise_in_bounds"),
}


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_rows_set_one_by_one_are_stacked(name: str) -> None:
    function = ROW_BY_ROW[name]
    run = against_jax(lambda y: lax.fori_loop(0, 5, lambda i, y: function(y, i), y), X).close()
    assert stacked(loops(run)[0]) == [(5, 3)]
    assert not states(loops(run)[0])


CARRIED_ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "added": lambda y, i: y.at[i].add(W[0] * i),
    "part": lambda y, i: y.at[i, :2].set(W[0, :2] * i),
    "column": lambda y, i: y.at[:, i % 3].set(W[0, 0] * i),
    "beyond": lambda y, i: y.at[i + 1].set(W[0] * i),
    "twice": lambda y, i: y.at[i].set(W[0] * i).at[i].set(W[1]),
    "two": lambda y, i: y.at[jnp.stack([i, i])].set(W[:2]),
    "repeated": lambda y, i: y.at[i // 2].set(W[0] * i),
}


@pytest.mark.parametrize("name", CARRIED_ROWS)
def test_other_writes_are_carried(name: str) -> None:
    function = CARRIED_ROWS[name]
    run = against_jax(lambda y: lax.fori_loop(0, 5, lambda i, y: function(y, i), y), X).close()
    assert not stacked(loops(run)[0])
    assert states(loops(run)[0]) == [(5, 3)]


def test_rows_written_through_a_normalised_index_are_stacked() -> None:
    def body(i: Any, y: Any) -> Any:
        return lax.dynamic_update_index_in_dim(y, jnp.asarray(X)[i] * 2, i, 0)

    run = against_jax(lambda y: lax.fori_loop(0, 5, body, y), W[[0, 1, 2, 0, 1]]).close()
    assert stacked(loops(run)[0]) == [(5, 3)]


def test_what_nobody_reads_is_neither_stacked_nor_carried() -> None:
    def f(x: Any, w: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            a, _ = c
            return (a @ w + row, jnp.exp(a)), (a.sum(), row * 2)

        return lax.scan(body, (x[0], x[0]), x)[1][0]

    run = against_jax(f, X, W).close().has_no("Exp")
    (loop,) = loops(run)
    assert (states(loop), stacked(loop)) == ([(3,)], [(5,)])


def test_map_is_one_loop() -> None:
    run = against_jax(lambda x: lax.map(lambda row: jnp.exp(row).sum(), x), X).close()
    run.graph_is("Loop", "Gather", "Exp", "ReduceSum", "Identity")


def test_vmapped_scan() -> None:
    batch = np.stack([X, -X])
    run = against_jax(jax.vmap(rnn, in_axes=(0, None)), batch, W).close()
    assert states(loops(run)[0]) == [(2, 3)]


def test_gradient_of_a_scan() -> None:
    def loss(x: Any, w: Any) -> Any:
        final, (rows, _) = rnn(x, w)
        return (rows**2).sum() + final.sum()

    run = against_jax(jax.grad(loss, argnums=(0, 1)), X, W).close()
    assert len(loops(run)) == 2
    assert all((5, 3) not in states(loop) for loop in loops(run))


def test_checkpointed_scan() -> None:
    def loss(x: Any, w: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            return jax.checkpoint(lambda c, row: jnp.tanh(c @ w + row))(c, row), None

        return lax.scan(body, jnp.zeros(3), x)[0].sum()

    against_jax(jax.grad(loss, argnums=(0, 1)), X, W).close()


def test_what_does_not_change_is_computed_once() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            return lax.fori_loop(0, 3, lambda i, d: jnp.tanh(d @ w.T) * jnp.exp(b), c) + row, None

        return lax.scan(body, jnp.zeros(3), x)[0]

    run = against_jax(f, X, W, W[0]).close()
    outside = [node.op_type for node in run.program.model.graph]
    assert "Exp" in outside
    found = loops(run)
    assert found
    assert all("Transpose" not in [n.op_type for n in body(loop)] for loop in found)


def test_weights_are_widened_once() -> None:
    def f(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, row: (c @ w + row, None), x[0], x)[0]

    run = against_jax(f, X.astype(ml_dtypes.bfloat16), W.astype(ml_dtypes.bfloat16)).close()
    readers = run.program.model.graph.inputs[1].consumers()
    assert [node.graph for node in readers] == [run.program.model.graph]


def test_nodes_of_branches_stay_where_they_are() -> None:
    def f(x: Any, n: Any) -> Any:
        return lax.fori_loop(
            0, n, lambda i, c: lax.cond(i > 2, lambda: c + jnp.exp(x), lambda: c), x
        )

    run = against_jax(f, X, np.int32(5)).close()
    assert "Exp" not in [node.op_type for node in run.program.model.graph]


def test_loops_in_branches_and_branches_in_loops() -> None:
    def f(x: Any, n: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            return lax.cond(
                i % 2 == 0,
                lambda c: c + x,
                lambda c: lax.fori_loop(0, i, lambda j, d: d * 0.5, c),
                c,
            )

        return lax.cond(n > 2, lambda: lax.fori_loop(0, n, step, x), lambda: rnn(x, W)[1][0])

    for n in (0, 2, 3, 6):
        against_jax(f, X, np.int32(n)).close()


def test_calls_in_bodies() -> None:
    @jax.jit
    def step(c: Any, w: Any) -> Any:
        return jnp.tanh(c @ w)

    def f(x: Any, w: Any) -> Any:
        return lax.while_loop(
            lambda c: jax.jit(lambda d: d.sum() < 50)(c),
            lambda c: step(c, w) + step(c + 1, w) + c,
            x,
        )

    against_jax(f, np.abs(X), np.abs(W)).close()


def test_names_follow_the_program() -> None:
    run = against_jax(rnn, X, W)
    (loop,) = loops(run)
    assert loop.name is not None and loop.name.startswith("while")
    assert all(str(value.name).startswith("while/") for value in body(loop).inputs)
