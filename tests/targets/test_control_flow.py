"""Control flow that the flags of a target exclude is unrolled or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx
from hlo2onnx import TranslationError

X = np.linspace(-1, 1, 6, dtype=np.float32)


def table(folder: Path, **flags: bool) -> str:
    path = folder / "small.json"
    path.write_text(json.dumps({"extends": "ort-cpu", **flags}))
    return str(path)


def many_trips(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 40, lambda i, y: jnp.sin(y) * 0.9 + i, x)


def until(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda y: jnp.max(y) > 0.1, lambda y: y * 0.5, x)


def choice(x: jax.Array) -> jax.Array:
    return lax.cond(jnp.sum(x) > 0, lambda y: until(y), lambda y: y + 1, x)


def test_loops_of_constant_trips_are_unrolled(tmp_path: Path) -> None:
    program = hlo2onnx.translate(many_trips, X, target=table(tmp_path, no_loop=True, no_scan=True))
    assert {"Loop", "Scan"}.isdisjoint(program.report.nodes)
    assert program.verify(X, runtime="ort-cpu").ok


@pytest.mark.parametrize(
    ("flag", "function", "what"),
    [
        ("no_loop", until, "Loop"),
        ("no_if", choice, "If"),
    ],
)
def test_others_are_refused(
    flag: str, function: Callable[..., Any], what: str, tmp_path: Path
) -> None:
    hlo2onnx.translate(function, X)
    with pytest.raises(TranslationError, match=f"runs no {what}"):
        hlo2onnx.translate(function, X, target=table(tmp_path, **{flag: True}))


def bounded(x: jax.Array) -> Any:
    def goes_on(state: Any) -> Any:
        return (state[0] < 50) & (jnp.max(state[1]) > 0.1)

    return lax.while_loop(goes_on, lambda s: (s[0] + 1, s[1] * 0.5), (0, x))


@pytest.mark.parametrize("x", [X, X * 0, X + 1000])
def test_a_condition_freezes_the_states(x: np.ndarray, tmp_path: Path) -> None:
    """The last trip may be none, or an early one."""
    program = hlo2onnx.translate(bounded, x, target=table(tmp_path, no_loop=True))
    assert program.report.nodes["Scan"] == program.report.nodes["If"] == 1
    assert program.verify(x, runtime="ort-cpu").ok


def test_scans_replace_loops(tmp_path: Path) -> None:
    program = hlo2onnx.translate(many_trips, X, target=table(tmp_path, no_loop=True))
    assert program.report.nodes["Scan"] == 1
    assert program.verify(X, runtime="ort-cpu").ok
