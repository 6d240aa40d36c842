"""Transposes of many small matrices as Transposes of the whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax
from edge_values import edge_values

import hlo2onnx

BATCH = 32


def transposed(shape: Sequence[int], perm: Sequence[int], dtype: Any = np.float32) -> Any:
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    return against_jax(lambda x: jnp.transpose(x, perm), x).bit_exact()


def is_moved(run: Any) -> bool:
    assert bool(run.nodes["Gather"]) == (run.nodes["Transpose"] == 2)
    return bool(run.nodes["Gather"])


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((BATCH, 6, 6), (0, 2, 1)),
        ((BATCH, 3, 5), (0, 2, 1)),
        ((4, 8, 2, 3), (0, 1, 3, 2)),
        ((BATCH, 2, 3, 4), (0, 3, 1, 2)),
        ((BATCH, 2, 3, 4), (0, 3, 2, 1)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool", "complex64"])
def test_small_matrices(shape: Sequence[int], perm: Sequence[int], dtype: str) -> None:
    transposed(shape, perm, dtype)
    if dtype != "complex64":
        assert is_moved(transposed(shape, perm, dtype))


def test_every_bit_stays() -> None:
    edges = edge_values("f32")
    x = np.resize(edges, (BATCH, 4, 3))
    run = against_jax(lambda x: jnp.swapaxes(x, 1, 2), x)
    assert is_moved(run)
    for (result,), _ in zip(run.actual, range(2), strict=True):
        assert result.tobytes() == x.swapaxes(1, 2).tobytes()


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((BATCH - 1, 6, 6), (0, 2, 1)),
        ((BATCH, 16, 16), (0, 2, 1)),
        ((BATCH, 6, 6), (1, 0, 2)),
        ((BATCH, 6, 6), (2, 0, 1)),
        ((0, 6, 6), (0, 2, 1)),
    ],
    ids=["few", "large", "batch moves", "batch moves last", "empty"],
)
def test_others_stay(shape: Sequence[int], perm: Sequence[int]) -> None:
    assert not is_moved(transposed(shape, perm))


def test_product_takes_the_transpose_over() -> None:
    """ONNX Runtime has one operator for the Transpose and the MatMul."""
    x = np.arange(BATCH * 16, dtype=np.float32).reshape(BATCH, 4, 4)
    run = against_jax(lambda x, y: jnp.swapaxes(x, 1, 2) @ y, x, np.ones_like(x)).close()
    run.has_no("Gather")


def test_other_targets() -> None:
    x = np.zeros((BATCH, 6, 6), np.float32)
    program = hlo2onnx.translate(lambda x: jnp.swapaxes(x, 1, 2), x, target="onnx")
    assert program.report.nodes == {"Transpose": 1}
