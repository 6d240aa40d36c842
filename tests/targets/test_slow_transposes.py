"""Transposes of many small matrices, and of several axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax

import hlo2onnx
from hlo2onnx.targets.workarounds import slow_kernels

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
@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool"])
def test_small_matrices(shape: Sequence[int], perm: Sequence[int], dtype: str) -> None:
    assert is_moved(transposed(shape, perm, dtype))


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


@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize(
    ("shape", "perm", "fires"),
    [((6, 5), (1, 0), False), ((1, 6, 5), (0, 2, 1), True), ((2, 3, 4), (0, 2, 1), True)],
)
def test_batches_of_any_size(
    least: int,
    shape: Sequence[int],
    perm: Sequence[int],
    fires: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Transposes that one becomes have no batch: they would be replaced for ever."""
    monkeypatch.setattr(slow_kernels, "_FEWEST_MATRICES", least)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    run = against_jax(lambda x: jnp.transpose(x, perm), x).bit_exact()
    assert bool(run.nodes["Gather"]) == fires


def test_product_takes_the_transpose_over() -> None:
    """ONNX Runtime has one operator for the Transpose and the MatMul."""
    x = np.arange(BATCH * 16, dtype=np.float32).reshape(BATCH, 4, 4)
    run = against_jax(lambda x, y: jnp.swapaxes(x, 1, 2) @ y, x, np.ones_like(x)).close()
    run.has_no("Gather")


@pytest.mark.parametrize("shape", [(BATCH, 6, 6), (1, 64, 65)])
def test_other_targets(shape: Sequence[int]) -> None:
    x = np.zeros(shape, np.float32)
    program = hlo2onnx.translate(lambda x: jnp.swapaxes(x, 1, 2), x, target="onnx")
    assert program.report.nodes == {"Transpose": 1}


MOVES = {
    "kernel of one place": ((1, 1, 64, 65), (3, 2, 0, 1), ["Reshape", "Transpose", "Reshape"]),
    "matrix": ((1, 64, 65), (2, 1, 0), ["Reshape", "Transpose", "Reshape"]),
    "matrix among ones": (
        (1, 8, 65, 1, 8),
        (4, 3, 1, 0, 2),
        ["Reshape", "Transpose", "Reshape"],
    ),
    "batch": ((5, 1, 33, 31, 1), (0, 4, 3, 1, 2), ["Reshape", "Transpose", "Reshape"]),
}


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("name", MOVES)
def test_several_axes(name: str, dtype: str) -> None:
    shape, perm, expected = MOVES[name]
    run = transposed(shape, perm, dtype)
    assert [node.op_type for node in run.program.model.graph] == expected


@pytest.mark.parametrize(
    ("shape", "perm", "dtype"),
    [
        ((3, 3, 64, 32), (3, 0, 1, 2), "float32"),  # one axis moves
        ((64, 65), (1, 0), "float32"),
        ((1, 1, 63, 65), (3, 2, 0, 1), "float32"),  # 4,095 elements
        ((3, 3, 64, 32), (3, 2, 0, 1), "float32"),  # three parts
        ((1, 1, 64, 65), (3, 2, 0, 1), "float64"),
        ((8, 9, 8, 9), (3, 1, 2, 0), "float32"),  # four parts
        ((0, 3, 64, 32), (3, 2, 0, 1), "float32"),
    ],
)
def test_other_moves_stay(shape: Sequence[int], perm: Sequence[int], dtype: str) -> None:
    program = transposed(shape, perm, dtype).program
    assert set(program.report.nodes) <= {"Transpose", "Expand", "Reshape"}
    assert program.report.nodes["Reshape"] == 0


def test_several_axes_before_a_product() -> None:
    x, y = np.ones((1, 64, 65), np.float32), np.ones((64, 3), np.float32)
    run = against_jax(lambda x, y: jnp.transpose(x, (2, 0, 1)) @ y, x, y).close()
    run.has_no("Gather")
