"""Products that are rounded to a half type, joined, and look-alikes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite
from verified import verified

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.joined_products import JoinRoundedProducts

Value, T = oir.Value, oir.DataType
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
WEIGHTS = [RNG.normal(size=(4, n)).astype(np.float32) for n in (5, 2, 3)]


def rounded(b: GraphBuilder, x: Value, dtype: oir.DataType = T.BFLOAT16) -> Value:
    return b.cast(b.cast(x, dtype), T.FLOAT)


def run(build: Any, **inputs: np.ndarray) -> Rewrite:
    return Rewrite(build, {"x": X, **inputs}, JoinRoundedProducts(), tolerance=1e-6)


def products(
    b: GraphBuilder,
    x: Value,
    weights: Sequence[Any] = WEIGHTS,
    types: Sequence[oir.DataType] = (T.BFLOAT16,) * 3,
) -> list[Value]:
    constants = [b.const(w) for w in weights]
    return [rounded(b, b.MatMul(x, w), dtype) for w, dtype in zip(constants, types, strict=False)]


def test_three_products() -> None:
    run(products).gives("MatMul", "Split", *["Cast"] * 6)


def test_weights_in_half_precision() -> None:
    """They stay as they are stored."""
    stored = [w.astype(ml_dtypes.bfloat16) for w in WEIGHTS]

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        return [rounded(b, b.MatMul(x, b.cast(b.const(w), T.FLOAT))) for w in stored]

    run(build).gives("MatMul", "Split", *["Cast"] * 7)


def read_twice(b: GraphBuilder, x: Value) -> list[Value]:
    weight, other = b.const(WEIGHTS[0]), b.const(WEIGHTS[1])
    made = [rounded(b, b.MatMul(x, w)) for w in (weight, other)]
    return [*made, b.Neg(weight)]


def product_read_twice(b: GraphBuilder, x: Value) -> list[Value]:
    one, other = (b.MatMul(x, b.const(w)) for w in WEIGHTS[:2])
    return [rounded(b, one), b.Neg(one), rounded(b, other)]


def of_two_values(b: GraphBuilder, x: Value) -> list[Value]:
    return [
        rounded(b, b.MatMul(y, b.const(w))) for y, w in zip((x, b.Abs(x)), WEIGHTS, strict=False)
    ]


def on_the_right(b: GraphBuilder, x: Value) -> list[Value]:
    left = [RNG.normal(size=(n, 3)).astype(np.float32) for n in (2, 5)]
    return [rounded(b, b.MatMul(b.const(w), x)) for w in left]


def not_rounded(b: GraphBuilder, x: Value) -> list[Value]:
    return [b.Neg(b.MatMul(x, b.const(w))) for w in WEIGHTS]


def of_two_types(b: GraphBuilder, x: Value) -> list[Value]:
    return products(b, x, types=(T.BFLOAT16, T.FLOAT16))


def of_batches(b: GraphBuilder, x: Value) -> list[Value]:
    return products(b, x, [RNG.normal(size=(2, 4, n)).astype(np.float32) for n in (2, 5)])


@pytest.mark.parametrize(
    "build",
    [read_twice, product_read_twice, of_two_values, on_the_right, not_rounded, of_two_types,
     of_batches],
)  # fmt: skip
def test_look_alikes(build: Any) -> None:
    run(build).nothing()


def test_computed_weights() -> None:
    def build(b: GraphBuilder, x: Value, v: Value, w: Value) -> list[Value]:
        return [rounded(b, b.MatMul(x, y)) for y in (v, w)]

    run(build, v=WEIGHTS[0], w=WEIGHTS[1]).nothing()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_attention_in_half_precision(dtype: Any) -> None:
    """Projections with biases: one product, one sum and two roundings for all three."""
    weights = [jnp.asarray(RNG.normal(size=(8, 8)), dtype) for _ in range(3)]
    biases = [jnp.asarray(RNG.normal(size=8), dtype) for _ in range(3)]
    x = jnp.asarray(RNG.normal(size=(4, 8)), dtype)

    def attention(x: jax.Array) -> jax.Array:
        q, k, v = (x @ w + b for w, b in zip(weights, biases, strict=True))
        return jax.nn.softmax(q @ k.T) @ v

    found = verified(attention, x).report.nodes
    assert (found["MatMul"], found["Split"], found["Add"]) == (3, 1, 1)
    assert found["Where"] == 0  # of a maximum that would keep NaN
    apart = verified(attention, x, without=("join-rounded-products",)).report.nodes
    assert apart.total() == found.total() + 11
