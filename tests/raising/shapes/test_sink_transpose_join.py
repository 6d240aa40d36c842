"""Transposes that sink past Reshapes that join axes, and look-alikes."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite
from verified import nodes

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.transpose import SinkTranspose

X = np.arange(2 * 3 * 4 * 5 * 6, dtype=np.float32).reshape(2, 3, 4, 5, 6)


def run(perm: Sequence[int], dims: Sequence[int], x: np.ndarray = X, reads: str = "") -> Rewrite:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        turned = b.Transpose(b.Abs(x), perm=list(perm))
        results = [b.Neg(b.op("Reshape", turned, b.i64(list(dims))))]
        return results + ([b.CumSum(turned, b.i64(0))] if reads else [])

    return Rewrite(build, {"x": x}, SinkTranspose())


@pytest.mark.parametrize(
    ("perm", "dims"),
    [
        ((0, 3, 4, 1, 2), (2, 5, 6, 12)),
        ((3, 4, 0, 1, 2), (30, 24)),
        ((4, 0, 1, 2, 3), (6, 6, 20)),
    ],
    ids=["channels last", "two groups", "two pairs"],
)
def test_axes_that_stay_together(perm: Sequence[int], dims: Sequence[int]) -> None:
    run(perm, dims).gives("Abs", "Reshape", "Transpose", "Neg")


@pytest.mark.parametrize(
    ("perm", "dims"),
    [
        ((0, 3, 4, 2, 1), (2, 5, 6, 12)),
        ((0, 3, 1, 2, 4), (2, 15, 4, 6)),
        ((0, 3, 4, 1, 2), (2, 5, 6, 6, 2)),
        ((0, 3, 4, 1, 2), (2, 5, 3, 24)),
        ((0, 3, 4, 1, 2), (2, 5, 6, 3, 4)),
    ],
    ids=["reversed", "apart", "other axes", "split and joined", "the same shape"],
)
def test_look_alikes(perm: Sequence[int], dims: Sequence[int]) -> None:
    run(perm, dims).nothing()


def test_another_reader_needs_the_transpose() -> None:
    run((0, 3, 4, 1, 2), (2, 5, 6, 12), reads="sum").nothing()


def test_groups_of_channels_between_convolutions() -> None:
    """Keras normalizes groups of channels: images stay in the layout of convolutions."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 6, 6, 8)).astype(np.float32)
    w = rng.normal(size=(3, 3, 8, 8)).astype(np.float32)

    def conv(x: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def network(x: jax.Array) -> jax.Array:
        y = conv(x).reshape(2, 6, 6, 4, 2)
        mean, variance = (f((1, 2, 4), keepdims=True) for f in (y.mean, y.var))
        y = (y - mean) * jax.lax.rsqrt(variance + 1e-3)
        y = (y * jnp.linspace(1, 2, 8).reshape(4, 2) + 1).reshape(2, 6, 6, 8)
        return conv(jax.nn.silu(y))

    assert nodes(network, x)["Transpose"] == 2
