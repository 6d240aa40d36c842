"""Rotary embeddings whose products are rounded to a half type, and look-alikes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite
from verified import verified

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.rounded_rotation import RoundedRotation

Value, T = oir.Value, oir.DataType
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, 3, 8)).astype(np.float32)
X[0, 0, 0, :4] = [np.nan, -0.0, 0.0, np.inf]
COS, SIN = RNG.normal(size=(2, 5, 1, 4)).astype(np.float32)


def rounded(b: GraphBuilder, x: Value, dtype: oir.DataType = T.BFLOAT16) -> Value:
    return b.cast(b.cast(x, dtype), T.FLOAT)


def rotated(
    b: GraphBuilder, x: Value, change: str = "", cos: np.ndarray = COS, sin: np.ndarray = SIN
) -> Any:
    p, q = b.outputs("Split", x, b.i64([4, 4]), axis=3, n_outputs=2)
    if change == "swapped":
        p, q = q, p
    c, s = b.const(cos), b.const(sin)
    other = b.const(2 * sin) if change == "another angle" else s
    last = T.FLOAT16 if change == "another type" else T.BFLOAT16
    round_ = (lambda b, y, *_: y) if change == "not rounded" else rounded
    first = round_(b, b.Mul(p, c))
    real = b.Sub(first, round_(b, b.Mul(s, q)))
    angle = b.const(2 * cos) if change == "another cosine" else c
    terms = [round_(b, b.Mul(q, angle)), round_(b, b.Mul(p, other), last)]
    total = b.Sub(*terms) if change == "a difference" else b.Add(*terms)
    if "rounded" in change and change != "not rounded":
        real = rounded(b, real)
    if change == "all rounded":
        total = rounded(b, total)
    joined = b.concat([total, real][:: (1 if change == "imaginary first" else -1)], 3)
    return [joined, b.Neg(first)] if change == "read twice" else joined


def run(change: str = "", **tables: np.ndarray) -> Rewrite:
    return Rewrite(lambda b, x: rotated(b, x, change, **tables), {"x": X}, RoundedRotation())


def test_halves() -> None:
    run().gives("Split", *["Concat"] * 3, "Neg", *["Mul"] * 2, *["Cast"] * 4, "Add")


def test_rounded_halves() -> None:
    run("all rounded").gives("Split", *["Concat"] * 3, "Neg", *["Mul"] * 2, *["Cast"] * 6, "Add")


@pytest.mark.parametrize(
    "change",
    ["half rounded", "swapped", "another cosine", "another angle", "another type",
     "not rounded", "a difference", "imaginary first", "read twice"],
)  # fmt: skip
def test_look_alikes(change: str) -> None:
    run(change).nothing()


def test_one_angle_for_all_features() -> None:
    run(cos=COS[..., :1], sin=SIN[..., :1]).nothing()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_a_rotation_in_half_precision(dtype: Any) -> None:
    x = jnp.asarray(np.nan_to_num(X, posinf=1), dtype)
    cos, sin = jnp.asarray(COS, dtype), jnp.asarray(SIN, dtype)

    def rotate(x: jax.Array) -> jax.Array:
        p, q = jnp.split(jnp.tanh(x), 2, -1)
        return jnp.concatenate([p * cos - q * sin, q * cos + p * sin], -1)

    program = verified(rotate, x)
    apart = verified(rotate, x, without=("rounded-rotation",))
    assert apart.report.nodes["Mul"] == 2 * program.report.nodes["Mul"] == 4
    assert np.array_equal(program(x), apart(x))
    assert verified(rotate, x, half="fast").report.nodes["RotaryEmbedding"] == 1
