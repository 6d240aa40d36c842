"""while with a condition and with a counter, from MLIR text and as JAX spells it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from against_xla import against_xla
from jax import lax
from lowered_loops import X, against_jax, loops, states

import hlo2onnx

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


@pytest.mark.wide
@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.int64])
@pytest.mark.parametrize(
    ("goes_on", "step"), [(lax.lt, 1), (lax.le, 3), (lax.gt, -1), (lax.ge, -2), (lax.ne, 1)]
)
def test_counters(goes_on: Any, step: int, dtype: Any) -> None:
    """Beside the ends of their type, to bounds before and behind the start."""

    def count(start: Any, bound: Any) -> Any:
        def body(c: Any) -> Any:
            return c[0] + step if step > 0 else c[0] - abs(step), 3 * c[1] + 1

        return lax.while_loop(lambda c: goes_on(c[0], bound), body, (start, jnp.int32(2)))

    info = np.iinfo(dtype)
    with jax.enable_x64(True):
        for start in (int(info.min) + 40, int(info.max) - 40):
            for distance in (0 if goes_on is lax.ne else -step, 3 * step):
                against_jax(count, dtype(start), dtype(start + distance)).bit_exact()


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


def test_a_counter_that_wraps_writes_no_row_of_its_own() -> None:
    """From trip 256 on the u8 counts rows from 0 again. XLA clamps rows to 299 in u8, which wraps,
    too."""

    def function(x: jax.Array) -> jax.Array:
        def body(i: Any, state: Any) -> Any:
            k, y, x = state
            return k + jnp.uint8(1), lax.dynamic_update_slice(y, x[None], (k,)), x + 1

        return lax.fori_loop(0, 300, body, (jnp.uint8(0), jnp.zeros(300), x))[1]

    rows = hlo2onnx.translate(function, np.float32(1))(np.float32(1))
    trips = np.arange(300)
    expected = np.where(trips < 44, trips + 257, np.where(trips < 256, trips + 1, 0))
    np.testing.assert_array_equal(rows, expected)
