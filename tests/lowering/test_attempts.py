"""What the lowering does once: attempts for an opset, and the evaluation of called functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import lax

import dialect_handlers.common.threefry as threefry
import hlo2onnx
from hlo2onnx.lowering import lower
from hlo2onnx.lowering.emitter import Emitter

X = np.linspace(-2, 2, 6, dtype=np.float32)


def bits(x: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(jnp.cumsum(jnp.sin(x)), jnp.uint32)


def content(program: hlo2onnx.OnnxProgram) -> bytes:
    return oir.to_proto(program.model).SerializeToString(deterministic=True)


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[None]:
    """A list that grows with each call of a function."""
    calls: list[None] = []
    function: Callable[..., Any] = getattr(owner, name)

    def counting(*arguments: Any) -> Any:
        calls.append(None)
        return function(*arguments)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_the_opset_is_raised_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is the one of a lowering that starts again."""
    attempts = counted(monkeypatch, lower, "_translated")
    lowered = jax.jit(bits).lower(X)
    program = hlo2onnx.translate(lowered)
    assert len(attempts) == 1
    supports = Emitter.supports
    monkeypatch.setattr(Emitter, "supports", lambda em, *asked: em.opset and supports(em, *asked))
    monkeypatch.setattr(Emitter, "parts", lambda em, value: em.opset and em.environment[value])
    again = hlo2onnx.translate(lowered)
    assert len(attempts) == 3
    assert content(again) == content(program)
    assert again.report.notes == program.report.notes
    assert again.report.opset == program.report.opset == 26


def test_answers_that_differ_start_the_lowering_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node may depend on what the target runs in the opset that is tried first."""
    attempts = counted(monkeypatch, lower, "_translated")
    first = Emitter.operand

    def asking(em: Emitter, *arguments: Any) -> oir.Value:
        em.supports("BitCast", oir.DataType.FLOAT)
        return first(em, *arguments)

    monkeypatch.setattr(Emitter, "operand", asking)
    assert hlo2onnx.translate(jax.jit(bits).lower(X)).report.opset == 26
    assert len(attempts) == 2


def test_a_function_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = counted(monkeypatch, threefry, "evaluate")

    def draws(key: jax.Array) -> list[jax.Array]:
        return [jax.random.bits(jax.random.fold_in(key, number), (4,)) for number in range(5)]

    program = hlo2onnx.translate(jax.jit(draws).lower(jax.random.key(0)))
    functions = {"threefry2x32", "_threefry_fold_in"}
    assert program.report.ops["func.call"] > 5
    assert 0 < len(evaluated) <= len(functions) + 2
