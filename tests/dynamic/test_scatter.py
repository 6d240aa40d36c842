"""scatter over symbolic extents: of the operand, of the updates, of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_size import every_size
from jax import lax

import hlo2onnx

OPERANDS: dict[str, Callable[[jax.Array], Any]] = {
    "set the first row": lambda x: x.at[0].set(1.0),
    "set the last row": lambda x: x.at[-1].set(1.0),
    "set a middle row": lambda x: x.at[jnp.asarray(x.shape[0] // 2)].set(1.0),
    "add to one row twice": lambda x: x.at[jnp.array([0, 0])].add(2.0),
    "multiply a column twice": lambda x: x.at[:, jnp.array([1, 1])].mul(2.0),
    "max": lambda x: x.at[:, 2].max(0.3),
    "min at one place of each row": lambda x: x.at[jnp.arange(x.shape[0]), jnp.argmax(x, 1)].min(
        -3.0
    ),
    "apply": lambda x: x.at[:, 1].apply(jnp.sin),
    "rows that may not be there": lambda x: x.at[jnp.array([0, 1, 5, -9])].set(3.0),
    "complex": lambda x: lax.complex(x, -x).at[jnp.array([0, 0])].add(1 + 2j),
    "unique": lambda x: jnp.unique(jnp.round(x[:, 0]), size=4, fill_value=0.0),
    "nonzero": lambda x: jnp.nonzero(x[:, 0] > 0, size=3, fill_value=0),
    "histogram": lambda x: jnp.histogram(x, bins=4, range=(-2.0, 2.0)),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", OPERANDS)
def test_symbolic_operands(name: str) -> None:
    every_size(OPERANDS[name], "b, 8")


STARTS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "the first row": lambda b: (0 * b, 0),
    "the last row": lambda b: (b - 1, 7),
    "behind the last row": lambda b: (b, 3),
    "a row before the first": lambda b: (1 - b, 3),
    "a middle row": lambda b: (b // 2, 3),
    "a column that may be outside": lambda b: (b // 2, b + 2),
}
"""Row and column, of a matrix of shape (b, 8)."""


@pytest.mark.costly
@pytest.mark.parametrize("name", STARTS)
def test_a_place_that_follows_from_the_shape(name: str) -> None:
    """What is outside is dropped, and what is proven to be inside is not asked about."""
    numbers = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))

    def scattered(x: jax.Array) -> jax.Array:
        index = jnp.stack([jnp.asarray(place, jnp.int32) for place in STARTS[name](x.shape[0])])
        return lax.scatter(x, index, 5.0, numbers, mode="drop")

    program = every_size(scattered, "b, 8")
    if name in list(STARTS)[:2]:
        assert not any(program.report.nodes[guard] for guard in ("Max", "Min", "Where"))


TABLE = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
BOTH: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "add": (lambda x, i: x.at[i].add(1.0), ("b, 8", "int32[n]")),
    "set, dropped": (
        lambda x, i, u: x.at[i].set(u, mode="drop"),
        ("b, 8", "int32[n]", "n, 8"),
    ),
    "static operand": (
        lambda i, u: jnp.zeros((5, 8)).at[i].add(u),
        ("int32[n]", "n, 8"),
    ),
    "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 5), ("n, 8", "int32[n]")),
    "segment_max": (lambda x, i: jax.ops.segment_max(x, i, 5), ("n, 8", "int32[n]")),
    "segment_prod": (lambda x, i: jax.ops.segment_prod(x, i, 5), ("n, 8", "int32[n]")),
    "bincount": (lambda i: jnp.bincount(i, length=6), ("int32[n]",)),
    "each row its own window": (
        lambda x, i: jax.vmap(
            lambda row, start: lax.dynamic_update_slice(row, jnp.ones(3), (start,))
        )(x, i),
        ("b, 8", "int32[b]"),
    ),
    "gradient of an embedding": (
        lambda i: jax.grad(lambda w: (w[i] ** 2).sum())(jnp.asarray(TABLE)),
        ("int32[b, s]",),
    ),
    "gradient of a choice": (
        lambda x, i: jax.grad(lambda x: jnp.take_along_axis(x, i[:, None], 1).sum())(x),
        ("b, 8", "int32[b]"),
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", BOTH)
def test_symbolic_updates(name: str) -> None:
    function, specs = BOTH[name]
    every_size(function, *specs)


def test_a_region_without_a_name() -> None:
    def scattered(x: jax.Array, i: jax.Array, u: jax.Array) -> jax.Array:
        numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
        return lax.scatter_apply(x, i[:, None], jnp.cos, numbers, update_shape=u.shape)

    every_size(scattered, "b, 8", "int32[n]", "n, 8")


@pytest.mark.parametrize("combiner", ["add", "maximum", "set"])
def test_no_updates(combiner: str) -> None:
    """JAX's dimensions are at least 1, those of other producers are not."""
    body = (
        "stablehlo.return %b : tensor<f32>"
        if combiner == "set"
        else f"%1 = stablehlo.{combiner} %a, %b : tensor<f32> stablehlo.return %1 : tensor<f32>"
    )
    program = hlo2onnx.translate(
        f"""
        func.func public @main(%x: tensor<?x2xf32>, %i: tensor<?x1xi32>, %u: tensor<?x2xf32>)
            -> tensor<?x2xf32> {{
          %0 = "stablehlo.scatter"(%x, %i, %u) ({{
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              {body}
          }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
            inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
            index_vector_dim = 1>}} : (tensor<?x2xf32>, tensor<?x1xi32>, tensor<?x2xf32>)
            -> tensor<?x2xf32>
          return %0 : tensor<?x2xf32>
        }}"""
    )
    rng = np.random.default_rng(0)
    for rows, count in ((3, 0), (0, 2), (0, 0), (3, 4)):
        x = rng.standard_normal((rows, 2)).astype(np.float32)
        u = rng.standard_normal((count, 2)).astype(np.float32)
        assert program.verify(x, np.arange(count, dtype=np.int32)[:, None] % 2, u).ok
