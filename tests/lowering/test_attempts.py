"""What the lowering does once: attempts for an opset, and the evaluation of called functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dialect_handlers.common.threefry as threefry
import hlo2onnx
from hlo2onnx.lowering import lower

X = np.linspace(-2, 2, 6, dtype=np.float32)


def bits(x: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(jnp.cumsum(jnp.sin(x)), jnp.uint32)


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[None]:
    """A list that grows with each call of a function."""
    calls: list[None] = []
    function: Callable[..., Any] = getattr(owner, name)

    def counting(*arguments: Any) -> Any:
        calls.append(None)
        return function(*arguments)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_a_newer_opset_starts_the_lowering_again(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = counted(monkeypatch, lower, "_translated")
    report = hlo2onnx.translate(jax.jit(bits).lower(X)).report
    assert (len(attempts), report.opset) == (2, 26)
    assert [note for note in report.notes if note.startswith("opset 26 instead of")]


def test_a_function_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = counted(monkeypatch, threefry, "evaluate")

    def draws(key: jax.Array) -> list[jax.Array]:
        return [jax.random.bits(jax.random.fold_in(key, number), (4,)) for number in range(5)]

    program = hlo2onnx.translate(jax.jit(draws).lower(jax.random.key(0)))
    functions = {"threefry2x32", "_threefry_fold_in"}
    assert program.report.ops["func.call"] > 5
    assert 0 < len(evaluated) <= len(functions) + 2
