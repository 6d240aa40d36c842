"""Triangles of matrices by Trilu, and where they stay selections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax
from edge_values import edge_values

import hlo2onnx


def run(function: Callable[[jax.Array], jax.Array], x: np.ndarray) -> Any:
    return against_jax(function, x).bit_exact()


@pytest.mark.parametrize("k", [-3, -1, 0, 1, 4])
@pytest.mark.parametrize("shape", [(5, 5), (4, 6), (6, 4), (2, 3, 5, 6)])
@pytest.mark.parametrize("triangle", [jnp.tril, jnp.triu])
def test_triangles(triangle: Any, shape: tuple[int, ...], k: int) -> None:
    x = 1 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    done = run(lambda x: triangle(x, k), x)
    if 0 < np.count_nonzero(done.actual[0][0]) < x.size:
        assert done.nodes["Trilu"] == 1
        done.has_no("Where")


@pytest.mark.parametrize("kind", ["f32", "f64", "i64"])
@pytest.mark.parametrize("triangle", [jnp.tril, jnp.triu])
def test_every_bit_stays(triangle: Any, kind: str) -> None:
    """NaN and infinities beside the triangle are not read; -0 in it stays."""
    edges = edge_values(kind)
    x = np.resize(edges, (len(edges), len(edges) + 1))
    done = run(triangle, x)
    assert done.nodes["Trilu"] == 1
    wanted = {"tril": np.tril, "triu": np.triu}[triangle.__name__](x)
    for (result,), _ in zip(done.actual, range(2), strict=True):
        assert result.tobytes() == wanted.tobytes()


MASK = np.tri(4, dtype=bool)
OTHER = MASK ^ (np.arange(16).reshape(4, 4) == 15)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.where(OTHER, x, 0),
        lambda x: jnp.where(MASK, x, 1),
        lambda x: jnp.where(MASK, x, -0.0),
        lambda x: jnp.where(MASK, x[:1], 0),
        lambda x: jnp.where(MASK[:, None], x, 0),
        lambda x: jnp.where(np.stack([MASK, OTHER]), jnp.stack([x, x]), 0),
        lambda x: jnp.where(x > MASK, x, 0),
    ],
    ids=["hole", "one", "minus zero", "row", "broadcast", "two masks", "computed"],
)
def test_others_stay(function: Callable[[jax.Array], jax.Array]) -> None:
    x = np.arange(16, dtype=np.float32).reshape(4, 4) - 8
    run(function, x).has_no("Trilu")


def test_type_without_a_kernel() -> None:
    run(jnp.tril, np.ones((4, 4), np.uint8)).has_no("Trilu")


def test_other_targets() -> None:
    program = hlo2onnx.translate(jnp.tril, np.ones((4, 4), np.float32), target="onnx")
    assert program.report.nodes == {"Where": 1}
