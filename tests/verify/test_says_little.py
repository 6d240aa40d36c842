"""Outputs that vary too little to tell much by them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.verify.tolerance import Tolerance, tolerance_of, weakness

X = np.ones((4, 3), np.float32)
F32 = Tolerance(2e-6, 1e-6)

NEAR = np.float32([1, 1 + 1e-4])
LITTLE: dict[str, tuple[list[np.ndarray], Tolerance | None]] = {
    "NaN": ([np.full(3, np.nan)], F32),
    "nearly constant": ([NEAR], F32),
    "equal": ([np.zeros(3)], F32),
    "equal in all trials": ([np.ones(1), np.ones(1)], F32),
    "booleans": ([np.zeros(3, bool)], None),
    "bf16": ([np.float32([1, 1.01])], Tolerance(1.6e-2, 8e-3)),
}
MUCH: dict[str, tuple[list[np.ndarray], Tolerance | None]] = {
    "numbers": ([np.float32([1, 2])], F32),
    "one number": ([np.ones(1)], F32),
    "one trial with numbers": ([np.full(3, np.nan), np.float32([1, 2, 3])], F32),
    "differs between trials": ([np.ones(1), np.zeros(1)], F32),
    "no elements": ([np.zeros(0)], F32),
    "integers": ([np.array([1, 2])], None),
    "bf16": ([np.float32([1, 1.5])], Tolerance(1.6e-2, 8e-3)),
}


@pytest.mark.parametrize("name", LITTLE)
def test_weak(name: str) -> None:
    assert weakness(*LITTLE[name])


@pytest.mark.parametrize("name", MUCH)
def test_not_weak(name: str) -> None:
    assert not weakness(*MUCH[name])


def verified(function: Any, *args: np.ndarray) -> hlo2onnx.Verification:
    return hlo2onnx.translate(jax.jit(function).lower(*args)).verify()


def test_a_flat_softmax() -> None:
    found = verified(lambda x: jax.nn.softmax(1e-5 * x), X)
    assert found.ok
    assert [item.name for item in found.says_little] == ["result", "result"]
    assert "says little: nearly constant" in str(found)
    assert not verified(jax.nn.softmax, X).says_little


def test_only_nan() -> None:
    found = verified(lambda x: jnp.sqrt(-1 - x * x), X)
    assert "says little: all elements are NaN" in str(found)


def test_an_output_that_depends_on_no_input() -> None:
    found = verified(lambda x: (x, jnp.zeros(3)), X)
    assert not found.says_little


def test_the_tolerance_decides() -> None:
    tolerance = tolerance_of(np.dtype(np.float32))
    assert tolerance is not None
    assert weakness([NEAR], tolerance.with_given(None, 1e-5))
    assert not weakness([NEAR], tolerance.with_given(1e-9, 1e-9))
