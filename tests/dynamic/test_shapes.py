"""Broadcasts, pads, products, pooling and arithmetic over symbolic extents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_size import every_size
from jax import lax

import hlo2onnx
from hlo2onnx import TranslationError

# -- broadcasting over symbolic extents ----------------------------------------------------------

BROADCASTS: dict[str, Callable[[jax.Array], Any]] = {
    "select among three": lambda x: jnp.select([x > 1, x > 0], [x, -x], 0.0),
    "twice": lambda x: lax.broadcast(jnp.full(x.shape, False), (1,)),
    "iota": lambda x: x + jnp.arange(x.shape[0])[:, None],
    "tile": lambda x: jnp.tile(x, (2, 3)),
    "to nothing": lambda x: jnp.broadcast_to(x[:, :1], (x.shape[0], 0)),
    "outer": lambda x: jnp.outer(x[:, 0], x[:, 1]),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", BROADCASTS)
def test_broadcasts(name: str) -> None:
    every_size(BROADCASTS[name], "b, 8")


# -- pads by symbolic amounts, and reshapes back to the shape of an earlier value ----------------


def test_pads_by_extents() -> None:
    def padded(x: jax.Array) -> jax.Array:
        n = x.shape[0]
        return lax.pad(x, 2.0, ((n, 1, 0), (0, 2 * n, 0), (1, 2, 3)))

    every_size(padded, "n, m, 3", sizes=(1, 3))


def test_gaps_beside_symbolic_pads() -> None:
    """One axis with gaps, another one padded by an extent: each is fine alone."""
    every_size(lambda x: lax.pad(x, 2.0, ((1, 2, 2), (x.shape[0], 0, 0))), "n, 3", sizes=(1, 3))
    with pytest.raises(TranslationError, match="an axis with interior padding"):
        every_size(lambda x: lax.pad(x, 2.0, ((x.shape[0], 0, 2), (0, 0, 0))), "n, 3")


def test_an_added_axis_that_is_dropped_again() -> None:
    program = every_size(lambda x: x[:, None].reshape(x.shape[0]), "n", sizes=(1, 3))
    assert program.report.nodes["Reshape"] == 0
    every_size(lambda x: x[:, None].reshape(2, x.shape[0] // 2), "2*n", sizes=(1, 3))
    every_size(lambda x: x[:, None].reshape(x.shape[0] * 3), "n, 3", sizes=(1, 3))


# -- products with free dimensions take no more nodes than static ones ---------------------------


def scores(query: jax.Array, key: jax.Array) -> jax.Array:
    """Grouped attention: t and s are tokens, k heads, g groups of them."""
    return jnp.einsum("btkgh,bskh->bkgts", query, key) / 2


def test_scores_of_grouped_heads() -> None:
    """Queries come before keys, and groups before queries, without moving the product."""
    program = every_size(scores, "b, s, 2, 3, 4", "b, s, 2, 4")
    shapes = ((2, 5, 2, 3, 4), (2, 5, 2, 4))
    static = hlo2onnx.translate(
        jax.jit(scores).lower(*(jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes))
    )
    counts = [Counter(node.op_type for node in x.model.graph) for x in (program, static)]
    assert counts[0] == counts[1]


@pytest.mark.wide
def test_attention_of_jax() -> None:
    """Of its unit axes nothing is left."""

    def attention(x: jax.Array) -> jax.Array:
        heads = x.reshape(*x.shape[:2], 2, 4)
        return jax.nn.dot_product_attention(heads, heads, heads)

    program = every_size(attention, "b, s, 8")
    static = hlo2onnx.translate(jax.jit(attention).lower(jax.ShapeDtypeStruct((2, 5, 8), "f4")))
    counts = [Counter(node.op_type for node in x.model.graph) for x in (program, static)]
    assert counts[0] == counts[1]
    assert counts[0]["Attention"] == 1


# -- the gradients of pooling over symbolic extents ----------------------------------------------


def gradient(window: tuple[int, ...], strides: tuple[int, ...], padding: Any) -> Callable[..., Any]:
    def loss(x: jax.Array) -> jax.Array:
        pooled = lax.reduce_window(x, -jnp.inf, lax.max, (1, *window, 1), (1, *strides, 1), padding)
        return (pooled**2).sum()

    return jax.grad(loss)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("window", "strides", "padding", "spec"),
    [
        ((2, 2), (2, 2), "VALID", "b, 8, 8, 3"),
        ((3, 3), (2, 2), "SAME", "b, 8, 8, 3"),
        ((3, 3), (1, 1), ((0, 0), (1, 1), (1, 1), (0, 0)), "b, 4, 4, 3"),
        ((2, 2), (2, 2), "VALID", "b, h, w, 3"),
        ((3, 2), (1, 2), "VALID", "b, h, w, 3"),
    ],
)
def test_max_pooling(
    window: tuple[int, ...], strides: tuple[int, ...], padding: Any, spec: str
) -> None:
    every_size(gradient(window, strides, padding), spec, sizes=(4, 7))


def test_average_pooling() -> None:
    def loss(x: jax.Array) -> jax.Array:
        window = (1, 2, 2, 1)
        return (lax.reduce_window(x, 0.0, lax.add, window, window, "SAME") ** 2).sum()

    every_size(jax.grad(loss), "b, 8, 8, 3")


# -- arithmetic of programs on numbers that may be extents ---------------------------------------

SCALARS = {
    "and of integers": ("%0 = stablehlo.and %a, %b : tensor<i32>", "i32", 12 & 10),
    "or of integers": ("%0 = stablehlo.or %a, %b : tensor<i32>", "i32", 12 | 10),
    "sum of booleans": ("%0 = stablehlo.add %t, %t : tensor<i1>", "i1", True),
    "product of booleans": ("%0 = stablehlo.multiply %t, %f : tensor<i1>", "i1", False),
    "integer as boolean": (
        "%0 = stablehlo.convert %a : (tensor<i32>) -> tensor<i1>",
        "i1",
        True,
    ),
    "boolean as integer": (
        "%1 = stablehlo.convert %t : (tensor<i1>) -> tensor<i32>\n"
        "%0 = stablehlo.add %1, %n : tensor<i32>",
        "i32",
        4,
    ),
}


@pytest.mark.parametrize("name", SCALARS)
def test_constants_are_what_they_are(name: str) -> None:
    body, element, expected = SCALARS[name]
    program = hlo2onnx.translate(
        f"""
        func.func public @main(%x: tensor<?xf32>) -> tensor<{element}> {{
          %a = stablehlo.constant dense<12> : tensor<i32>
          %b = stablehlo.constant dense<10> : tensor<i32>
          %t = stablehlo.constant dense<true> : tensor<i1>
          %f = stablehlo.constant dense<false> : tensor<i1>
          %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
          {body}
          return %0 : tensor<{element}>
        }}"""
    )
    assert program(np.zeros(3, np.float32)) == expected
