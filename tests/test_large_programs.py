"""Programs of thousands of ops: translated in time linear in them, however long their chains."""

from __future__ import annotations

import cProfile
import gc
import pstats
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
INDICES = np.array([0, 3, 1, 2], np.int32)


def repeated(count: int, step: Callable[[Any], Any], x: Any) -> Any:
    for _ in range(count):
        x = step(x)
    return x


CHAINS: dict[str, Callable[[Any, int], Any]] = {
    "nan-free": lambda x, n: repeated(n, jnp.tanh, x).max(0),
    "finite": lambda x, n: repeated(n, lambda y: y * x, x).max(0),
    "float range": lambda x, n: repeated(n, lambda y: y * 0.5 + 1, x).astype(jnp.int32),
    "steps": lambda x, n: repeated(n, lambda y: y + 1, x).max(),
    "elements": lambda x, n: x[repeated(n, lambda i: jnp.minimum(i + 1, 3), INDICES)],
    "integer range": lambda x, n: 7 // repeated(n, lambda i: i ^ (i >> 1), x.astype(jnp.int32)),
    "distinct": lambda x, n: x.at[repeated(n, lambda i: i + 1, INDICES) - n].add(1),
    "sum": lambda x, n: sum(x[i % 4, i % 8] * 2.0 for i in range(n)),
    "rows": lambda x, n: repeated(n, lambda y: jnp.concatenate([y[1:], y[:1]]), x).max(0),
    "updates": lambda x, n: repeated(n, lambda y: y.at[1].set(y[2] + y[1]), x),
    "selects": lambda x, n: repeated(n, lambda y: jnp.where(y > 0, y - 1, x), x).max(),
}


@pytest.mark.parametrize("name", CHAINS)
def test_long_chains(name: str) -> None:
    program = hlo2onnx.translate(lambda x: CHAINS[name](x, 1100), X)
    # Op by op: XLA's compiler does not survive some of these.
    want = CHAINS[name](jnp.asarray(X), 1100)
    np.testing.assert_allclose(program(X), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CHAINS)
def test_work_is_linear_in_ops(name: str) -> None:
    """Four times the ops, about four times the calls of functions."""
    few, many = (_calls(lambda x, n=n: CHAINS[name](x, n)) for n in (60, 240))
    assert many < 5.5 * few


def _calls(function: Callable[[Any], Any]) -> int:
    lowered = jax.jit(function).lower(X)
    hlo2onnx.translate(lambda x: x + 1, X)
    profile = cProfile.Profile()
    profile.runcall(hlo2onnx.translate, lowered)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_the_garbage_collector_goes_on() -> None:
    assert gc.isenabled()
    hlo2onnx.translate(lambda x: x + 1, X)
    assert gc.isenabled()
    with pytest.raises(hlo2onnx.LoadError):
        hlo2onnx.translate("func.func @main() {\n  return\n}")
    assert gc.isenabled()
    gc.disable()
    try:
        hlo2onnx.translate(lambda x: x + 1, X)
        assert not gc.isenabled()
    finally:
        gc.enable()
