"""Products with free dimensions take no more nodes than static ones."""

from __future__ import annotations

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_size import every_size

import hlo2onnx


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
    """Of its unit axes nothing is left between the products and the Softmax."""

    def attention(x: jax.Array) -> jax.Array:
        heads = x.reshape(*x.shape[:2], 2, 4)
        return jax.nn.dot_product_attention(heads, heads, heads)

    program = every_size(attention, "b, s, 8")
    static = hlo2onnx.translate(jax.jit(attention).lower(jax.ShapeDtypeStruct((2, 5, 8), "f4")))
    counts = [Counter(node.op_type for node in x.model.graph) for x in (program, static)]
    assert counts[0] == counts[1]
    assert counts[0]["Softmax"] == 1
