"""Writes to caches with a free batch, length or window: ScatterND, and in place for a state."""

from __future__ import annotations

import json
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx

Write = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def along(axis: int) -> Write:
    return lambda cache, new, place: lax.dynamic_update_slice_in_dim(cache, new, place, axis)


CASES: dict[str, tuple[Write, str, str]] = {
    "batch": (along(1), "b, 16, 2, 32", "b, 1, 2, 32"),
    "length": (along(1), "2, t, 2, 32", "2, 1, 2, 32"),
    "batch and length": (along(1), "b, t, 2, 32", "b, 1, 2, 32"),
    "batch and length, heads first": (along(2), "b, 3, t, 64", "b, 3, 1, 64"),
    "several steps": (along(1), "b, 16, 64", "b, 5, 64"),
    "narrow rows": (along(1), "b, 16, 3", "b, 1, 3"),
    "many rows": (along(0), "9000, 64", "5000, 64"),
    "at a place": (
        lambda cache, new, place: cache.at[:, place].set(new[:, 0]),
        "b, 9, 64",
        "b, 1, 64",
    ),
}


def places_in_place(program: hlo2onnx.OnnxProgram) -> list[int]:
    metadata = program.model.metadata_props
    (key,) = [key for key in metadata if key.startswith("hlo2onnx.signature.")]
    found: list[int] = json.loads(metadata[key]).get("in_place", [])
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_write(name: str) -> None:
    write, cache, new = CASES[name]
    program = hlo2onnx.translate(jax.jit(write, donate_argnums=0), cache, new, "int32[]")
    assert program.report.nodes["ScatterND"] == 1
    assert program.report.nodes["Slice"] == 0
    assert places_in_place(program) == [0]
    rng = np.random.default_rng(0)
    for b, t in ((1, 7), (3, 16)):
        shapes = (
            tuple(int(dim) if dim.isdigit() else {"b": b, "t": t}[dim] for dim in spec.split(", "))
            for spec in (cache, new)
        )
        x, y = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
        want, stepped = jnp.asarray(x), x
        for place in (0, 3, t - 1, t, 99, -1, -t, -99):
            want = write(want, y, jnp.int32(place))
            stepped = program.step(stepped, y, np.int32(place))
            np.testing.assert_array_equal(np.asarray(stepped), want)
            y = y + 1
        np.testing.assert_array_equal(
            program(x, y, np.int32(1)), write(jnp.asarray(x), y, jnp.int32(1))
        )


def test_a_state_that_is_read_for_another_result() -> None:
    """ONNX Runtime may read it after the write."""

    def step(cache: jax.Array, new: jax.Array, place: jax.Array) -> tuple[jax.Array, jax.Array]:
        return cache.at[:, place].set(new), cache[:, 2] * 2

    program = hlo2onnx.translate(jax.jit(step, donate_argnums=0), "b, 9, 64", "b, 64", "int32[]")
    assert places_in_place(program) == []


def test_a_prompt_of_free_length() -> None:
    """The window is free, too: a prompt is written from a place on."""
    write = along(1)
    program = hlo2onnx.translate(write, "b, 40, 64", "b, s, 64", "int32[]", constraints=["s <= 40"])
    assert program.report.nodes["ScatterND"] == 1
    rng = np.random.default_rng(0)
    for b, s in ((1, 1), (2, 7), (2, 40)):
        x = rng.standard_normal((b, 40, 64)).astype(np.float32)
        y = rng.standard_normal((b, s, 64)).astype(np.float32)
        for place in (0, 3, 39, -2):
            found = program(x, y, np.int32(place))
            np.testing.assert_array_equal(found, write(jnp.asarray(x), y, jnp.int32(place)))


def test_no_batch() -> None:
    """Extents of 0 come from other producers than JAX."""
    text = """
    func.func public @main(%x: tensor<?x16x64xf32>, %u: tensor<?x1x64xf32>, %i: tensor<i32>)
        -> tensor<?x16x64xf32> {
      %0 = stablehlo.constant dense<0> : tensor<i32>
      %1 = stablehlo.dynamic_update_slice %x, %u, %0, %i, %0 :
        (tensor<?x16x64xf32>, tensor<?x1x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>)
        -> tensor<?x16x64xf32>
      return %1 : tensor<?x16x64xf32>
    }"""
    program = hlo2onnx.translate(text)
    empty = np.zeros((0, 16, 64), np.float32)
    assert program(empty, np.zeros((0, 1, 64), np.float32), np.int32(3)).shape == empty.shape
