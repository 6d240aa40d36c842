"""chlo.ragged_dot, which XLA on the CPU does not run itself: numpy says what it is."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mlir_text import tensor

from hlo2onnx import translate

NUMBERS = {
    # a ragged dimension of lhs that is kept, contracted, or batched
    "kept": ("lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]", [], [1], [1]),
    "contracted": ("lhs_ragged_dimensions = [1], rhs_group_dimensions = []", [], [1], [0]),
    "batched": ("lhs_ragged_dimensions = [0], rhs_group_dimensions = []", [0], [2], [1]),
}
SHAPES = {
    "kept": ((6, 4), (3, 4, 5), (6, 5)),
    "contracted": ((4, 6), (6, 5), (3, 4, 5)),
    "batched": ((6, 2, 4), (6, 4, 5), (6, 2, 5)),
}


def module(mode: str, element: str, sizes: tuple[int, ...] = (3,)) -> str:
    extra, batch, lhs, rhs = NUMBERS[mode]
    x, y, z = (tensor(dims, element) for dims in SHAPES[mode])
    groups = tensor(sizes, "i32")
    return f"""
    module {{ func.func public @main(%x: {x}, %y: {y}, %n: {groups}) -> {z} {{
      %0 = "chlo.ragged_dot"(%x, %y, %n) {{
        precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>],
        ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = {batch},
          rhs_batching_dimensions = {batch}, lhs_contracting_dimensions = {lhs},
          rhs_contracting_dimensions = {rhs}, {extra}>}} : ({x}, {y}, {groups}) -> {z}
      return %0 : {z}
    }} }}
    """


def expected(mode: str, x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    edges = np.concatenate([[0], np.cumsum(sizes)])
    result = np.zeros(SHAPES[mode][2], x.dtype)
    for group, (start, end) in enumerate(itertools.pairwise(edges)):
        rows = slice(start, end)
        if mode == "kept":
            result[rows] = x[rows] @ y[group]
        elif mode == "contracted":
            result[group] = x[:, rows] @ y[rows]
        else:
            result[rows] = x[rows] @ y[rows]
    return result


@pytest.mark.parametrize("mode", NUMBERS)
@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
@pytest.mark.parametrize("sizes", [(1, 2, 3), (0, 6, 0), (2, 0, 4)])
def test_ragged_dot(mode: str, element: str, sizes: tuple[int, ...]) -> None:
    dtype = {"f32": np.float32, "f64": np.float64, "f16": np.float16}[element]
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, dims).astype(dtype) for dims in SHAPES[mode][:2])
    groups = np.array(sizes, np.int32)
    found = translate(module(mode, element))(x, y, groups)
    np.testing.assert_array_equal(found, expected(mode, x, y, groups))


def test_rows_of_no_group_are_zero() -> None:
    x, y = np.ones((6, 4), np.float32), np.ones((3, 4, 5), np.float32)
    found = translate(module("kept", "f32"))(x, y, np.array([1, 0, 2], np.int32))
    np.testing.assert_array_equal(found[:, 0], [4, 4, 4, 0, 0, 0])


def test_jaxs_own() -> None:
    def model(x: jax.Array, y: jax.Array, sizes: jax.Array) -> jax.Array:
        return jax.lax.ragged_dot(x, y, sizes)

    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=dims).astype(np.float32) for dims in SHAPES["kept"][:2])
    lowered = jax.jit(model).lower(x, y, jnp.array([1, 2, 3], jnp.int32))
    assert translate(lowered).verify(x, y, np.array([1, 2, 3], np.int32))
