"""The report of a translation says what the target forced: casts, expansions, lost NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.report import Report

X = np.ones((5, 3), np.float32)


def reported(function: Callable[..., Any], *args: Any, **options: Any) -> Report:
    with jax.enable_x64(True):
        return hlo2onnx.translate(function, *args, **options).report


def test_casts_are_those_of_the_model() -> None:
    """Casts that cancel are not counted."""
    halves = np.ones(4, jnp.bfloat16)
    found = reported(lambda x: jnp.abs(-jnp.maximum(x, x[::-1])), halves)
    assert sum(found.casts.values()) == found.nodes["Cast"] == 3
    found = reported(lambda x: jnp.fmod(x, 3) // 2, np.int8([1, 2]), target="ort-cpu@1.20")
    assert found.casts["Div i8"] and found.casts["Sub i8"]
    assert sum(found.casts.values()) == found.nodes["Cast"]
    assert f"{found.casts['Sub i8']} for Sub i8" in str(found)


@pytest.mark.parametrize(
    ("function", "x", "target", "label"),
    [
        (lambda x: jax.lax.conv(x, x, (1, 1), "SAME"), np.ones((1, 1, 4, 4)), "ort-cpu",
         "Conv f64"),
        (jax.lax.erf, np.ones(3), "ort-web", "Erf f64"),
        (lambda x: x.max(), X, "ort-cpu", "ReduceMax f32"),
    ],
)  # fmt: skip
def test_expansions(function: Callable[..., Any], x: Any, target: str, label: str) -> None:
    found = reported(function, x, target=target)
    assert found.expanded[label] == 1
    assert f"expanded 1 {label}" in str(found)
    assert found.as_dict()["expanded"] == dict(found.expanded)
    assert label not in reported(function, x, target="onnx").expanded


def test_nan_that_may_get_lost() -> None:
    note = "openvino: Max, Min, Clip and Relu may lose NaN"
    found = reported(lambda x: jnp.clip(x, 0, 1), X, target="openvino")
    assert [text for text in found.notes if text.startswith(note)]
    for options in ({"target": "openvino", "nan": "runtime"}, {"target": "ort-cpu"}):
        assert not reported(lambda x: jnp.clip(x, 0, 1), X, **options).notes
    assert not reported(jnp.sin, X, target="openvino").notes


def test_nothing_forced() -> None:
    found = reported(lambda x: jnp.sin(x) + 1, X)
    assert not found.casts and not found.expanded
    assert "expanded" not in str(found) and "casts" not in str(found)
