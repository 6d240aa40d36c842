"""Denormal floats: ONNX Runtime keeps them, XLA takes them for zeros."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import run_python

import hlo2onnx
from hlo2onnx.errors import UsageError, VerificationError
from hlo2onnx.runtime import denormals
from hlo2onnx.verify import runners

DENORMAL = {np.float32: 1e-40, np.float64: 1e-310}


def asks_for_more_than_size(x: jax.Array) -> dict[str, jax.Array]:
    return {
        "order": jnp.argsort(x),
        "positive": x > 0,
        "zero": x == 0,
        "root": jnp.sqrt(x),
        "quotient": x / x,
        "largest": jnp.argmax(x),
        "half": x * 0.5,
        "true": x.astype(bool),
    }


def numbers(dtype: type) -> np.ndarray:
    d = DENORMAL[dtype]
    return np.array([d, -d, 0, -0.0, 1, -d], dtype)


@pytest.mark.parametrize("dtype", DENORMAL)
def test_flushed_as_in_xla(dtype: type) -> None:
    x = numbers(dtype)
    with jax.enable_x64(True):
        expected = jax.jit(asks_for_more_than_size)(x)
        got = hlo2onnx.translate(asks_for_more_than_size, x, denormals="flush")(x)
    for name, want in expected.items():
        np.testing.assert_array_equal(got[name], want, name)


@pytest.mark.parametrize("dtype", DENORMAL)
def test_kept_by_default(dtype: type) -> None:
    x = numbers(dtype)
    with jax.enable_x64(True):
        got = hlo2onnx.translate(asks_for_more_than_size, x)(x)
    assert got["order"].tolist() == [1, 5, 2, 3, 0, 4]
    assert got["positive"].tolist() == [True, False, False, False, True, False]
    assert np.isnan(got["root"]).tolist() == [False, True, False, False, False, True]


@pytest.mark.parametrize("policy", ["keep", "flush"])
@pytest.mark.parametrize("dtype", DENORMAL)
def test_verification_allows_for_denormals(dtype: type, policy: str) -> None:
    x = numbers(dtype)
    with jax.enable_x64(True):
        program = hlo2onnx.translate(asks_for_more_than_size, x, denormals=policy)
        found = program.verify(x)
    assert found, found
    remarks = {item.remark for item in (*found.optimized, *found.plain)} - {""}
    assert remarks == (set() if policy == "flush" else {"where ORT flushes denormals, too"})


def test_verification_keeps_what_calls_keep() -> None:
    """ORT's Softsign of 3e38 divides by way of a denormal reciprocal: it is 0 where they are
    flushed, but not in a call."""
    program = hlo2onnx.translate(jax.nn.soft_sign, np.float32(1))
    found = program.verify(np.float32(3e38))
    assert found, found
    assert {item.remark for item in (*found.optimized, *found.plain)} == {""}


def test_steps_flush() -> None:
    step = jax.jit(lambda state: (state + state, state > 0), donate_argnums=0)
    x = np.array([1e-40, 1], np.float32)
    state, positive = hlo2onnx.translate(step.lower(x), denormals="flush").step(x)
    assert positive.tolist() == [False, True]
    assert np.asarray(state).tolist() == [0, 2]


FRESH = """
import numpy as np
import hlo2onnx

def keeps():
    products = [np.array([d], t) * t(1) for t, d in ((np.float32, 1e-40), (np.float64, 1e-310))]
    return all(product.all() for product in products) and 1e-310 * float("1") != 0

x = np.full(1 << 20, 1e-40, np.float32)
program = hlo2onnx.translate(lambda x: (x + x, x > 0), x, denormals="flush")
double, positive = program(x)
assert not double.any() and not positive.any()
assert keeps(), "after a call"
assert program.verify(x[:]) and keeps(), "after a verification"
double, positive = hlo2onnx.translate(lambda x: (x + x, x > 0), x)(x)
assert double.all() and positive.all() and keeps(), "a session that keeps them"
"""


@pytest.mark.wide
def test_threads_of_the_user_keep_denormals() -> None:
    """In a process of its own: ORT's option changes the thread of the first session."""
    run_python(FRESH)


def test_unknown_policy() -> None:
    with pytest.raises(UsageError, match="denormals='zero' is not one of keep, flush"):
        hlo2onnx.translate(lambda x: x, np.float32(1), denormals="zero")


def test_platform_without_flushing_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denormals, "_CONTROL_WORDS", {})
    monkeypatch.setattr(runners, "can_flush", denormals.can_flush.__wrapped__)
    x = np.array([1, 2], np.float32)
    program: Any = hlo2onnx.translate(lambda x: x > 0, x, denormals="flush")
    with pytest.raises(VerificationError, match="denormals cannot be flushed on"):
        program(x)
    assert program.verify(x)
    found = program.verify(np.array([1e-40, 2], np.float32))
    assert found and found.plain[0].remark == "with zeros instead of denormal inputs"
    made: Any = hlo2onnx.translate(lambda x: x * x > 0, x)
    found = made.verify(np.array([1e-20, 2], np.float32))  # a product is denormal
    version = importlib.metadata.version("onnxruntime")
    note = f"XLA flushes denormals to zero; ONNX Runtime {version} may keep them"
    assert not found and note in found.notes
