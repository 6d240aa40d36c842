"""Gradients of average pools: every element repeated, where each window holds one."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite

import hlo2onnx
from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.rules.pooling import PoolingGradient
from hlo2onnx.raising.rules.shape import ComposeReshapes, DropIdentity

EDGES = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan, 1.5], np.float32)
X = np.resize(EDGES, (2, 3, 4, 5)).copy()


def _spread(cut: int = 1, low: int = 1, window: int = 2, one: float = 1.0) -> Build:
    """Windows over images with gaps along both axes, `window - 1` zeros wide."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        tiles = b.reshape(x, (2, 3, 1, 4, 1, 5))
        high = window - 1
        pads = b.i64([0, low, 0, low, 0, 0, 0, 0, high, 0, high, 0])
        padded = b.Pad(tiles, pads, b.scalar_like(0, x))
        rows, columns = (3 + low) * window, (4 + low) * window
        whole = b.reshape(padded, (2, rows, columns, 5))
        part = b.slice(whole, [cut, cut], [rows, columns], axes=[1, 2])
        ones = np.full((5, 1, window, window), one, np.float32)
        return b.Conv(b.Transpose(part, perm=(0, 3, 1, 2)), b.const(ones), group=5)

    return build


@pytest.mark.parametrize("window", [2, 3])
def test_pooling_gradient(window: int) -> None:
    rules = PoolingGradient(), ComposeReshapes(), DropIdentity()
    found = Rewrite(_spread(window=window), {"x": X}, *rules)
    found.gives("Add", "Transpose", "Gather", "Gather")


@pytest.mark.parametrize("changed", [{"cut": 0}, {"cut": 2}, {"low": 2}, {"low": 0}, {"one": 0.5}])
def test_other_windows_stay(changed: dict[str, float]) -> None:
    Rewrite(_spread(**changed), {"x": X}, PoolingGradient()).nothing()  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [(2, 2), (3, 3), (2, 3)])
def test_gradient_in_jax(window: tuple[int, int]) -> None:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.sin(nn.avg_pool(x, window, strides=window)).sum()

    x = np.random.default_rng(0).normal(size=(2, 6, 12, 4)).astype(np.float32)
    program = hlo2onnx.translate(jax.jit(jax.grad(loss)).lower(x))
    assert program.report.rules["pooling-gradient"] == 1
    assert not program.report.nodes["Pad"]
    verification = program.verify(x)
    assert verification.ok, verification


def test_overlapping_windows_stay() -> None:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.sin(nn.avg_pool(x, (3, 3), strides=(2, 2))).sum()

    x = np.random.default_rng(0).normal(size=(2, 7, 9, 4)).astype(np.float32)
    program = hlo2onnx.translate(jax.jit(jax.grad(loss)).lower(x))
    assert not program.report.rules["pooling-gradient"]
    assert program.verify(x).ok
