"""Programs of other producers, whose extents have no names and may be 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx

TABLE = np.arange(20, dtype=np.float32).reshape(5, 4)


def as_other_producers_write_it(function: Callable[[jax.Array], Any]) -> str:
    """The function of f32[?, 4], without what tells that JAX wrote it: that no extent is 0."""
    shape = jax.export.symbolic_shape("n, 4")
    spec = jax.ShapeDtypeStruct(shape, np.float32)
    text = jax.export.export(jax.jit(function))(spec).mlir_module()
    lines = [line for line in text.splitlines() if "shape_assertion" not in line]
    shapes, names = "jax.uses_shape_polymorphism = true, ", "jax.global_constant"
    assert shapes in text
    return "\n".join(lines).replace(shapes, "").replace(names, "jax.named")


FUNCTIONS: dict[str, Callable[[jax.Array], Any]] = {
    "mean": lambda x: x.mean(0),
    "sum, largest, product": lambda x: (
        x.sum(),
        lax.reduce(x, -jnp.inf, lax.max, (0,)),
        x.prod(0),
    ),
    "largest of integers": lambda x: lax.reduce((4 * x).astype(int), -9, lax.max, (0,)),
    "softmax": lambda x: (jax.nn.softmax(x), jax.nn.softmax(x, 0)),
    "layer norm": lambda x: (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + 1),
    "products": lambda x: (x @ TABLE.T, x.T @ x, x @ x.T),
    "edges and gaps": lambda x: (
        lax.pad(x, 2.0, ((1, 1, 1), (0, 0, 0))),
        lax.pad(x, 2.0, ((0, 3, 2), (0, 0, 0))),
        jnp.pad(x, ((1, 2), (0, 0))),
    ),
    "sort": lambda x: (jnp.sort(x, 0), jnp.argsort(x, 0), lax.top_k(x, 2)),
    "cumulative": lambda x: (jnp.cumsum(x, 0), lax.cummax(x, 0)),
    "gather and scatter": lambda x: (
        jnp.asarray(TABLE)[x[:, 0].astype(int)],
        jnp.asarray(TABLE).at[x[:, 0].astype(int) % 5].add(x),
    ),
    "counting": lambda x: (jnp.arange(x.shape[0]), jnp.eye(x.shape[0]), x[::-1]),
    "loop": lambda x: lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(x.shape[0]), x.T),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_rows(name: str) -> None:
    function = FUNCTIONS[name]
    program = hlo2onnx.translate(as_other_producers_write_it(function))
    for rows in (0, 1, 3):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        expected, found = jax.tree.leaves(jax.jit(function)(x)), program(x)
        for y, z in zip(expected, found if len(expected) > 1 else [found], strict=True):
            np.testing.assert_allclose(z, y, 1e-5, 1e-6)
            assert z.dtype == y.dtype
