"""Functions of f32 for targets without a good kernel, against exact values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.targets.decompositions.functions import F32_FUNCTIONS

Exact = Callable[[np.ndarray], np.ndarray]

# function, exact function, where to look, units in the last place (0.5 is the best)
FUNCTIONS: dict[str, tuple[Callable[..., object], Exact, float, float]] = {
    "Acos": (jnp.arccos, np.arccos, 1, 4),
    "Acosh": (jnp.arccosh, np.arccosh, 300, 4),
    "Asin": (jnp.arcsin, np.arcsin, 1, 4),
    "Asinh": (jnp.arcsinh, np.arcsinh, 300, 4),
    "Atan": (jnp.arctan, np.arctan, 300, 4),
    "Atanh": (jnp.arctanh, np.arctanh, 1, 4),
    "Cos": (jnp.cos, np.cos, 3e4, 2.5),
    "Cosh": (jnp.cosh, np.cosh, 80, 4),
    "Sin": (jnp.sin, np.sin, 3e4, 3),
    "Sinh": (jnp.sinh, np.sinh, 80, 4),
    "Tan": (jnp.tan, np.tan, 3e4, 4),
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("targets") / "plain.json"
    wrong = {op_type: {"17-": "f32"} for op_type in F32_FUNCTIONS}
    ops = {op_type: {"17-": "f64"} for op_type in F32_FUNCTIONS}
    path.write_text(json.dumps({"extends": "ort-cpu", "ops": ops, "wrong": wrong}))
    return path


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name: str, target: Path) -> None:
    function, exact, end, limit = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    tiny = 2.0 ** -np.arange(1, 120, 2.0)
    near = np.arange(-200, 201) * (np.pi / 2 if end > 1000 else 1 / 200)
    x = np.concatenate([np.linspace(-end, end, 30_001), rng.uniform(-4, 4, 10_000), tiny, -tiny,
                        near, [0.0, -0.0]]).astype(np.float32)  # fmt: skip
    with np.errstate(all="ignore"):
        x = x[(np.abs(x) <= end) & np.isfinite(exact(x))]
    program = hlo2onnx.translate(function, x, target=target)
    assert name not in program.report.nodes
    got = np.asarray(program(x))
    want = exact(x.astype(np.longdouble))
    distance = np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))
    is_hard = np.abs(np.abs(x) - 252.898208) < 1e-5  # nearly an odd multiple of pi/2
    assert distance[~is_hard].max() <= limit
    assert distance.max() <= 50


@pytest.mark.parametrize("name", FUNCTIONS)
def test_edges(name: str, target: Path) -> None:
    """NaN and what lies outside the domain give NaN; so do angles beyond 1e5, not numbers."""
    function, exact, _, _ = FUNCTIONS[name]
    x = np.array([np.nan, np.inf, -np.inf, 2, -2, 1, -1, 0, 9.9e4, -9.9e4], np.float32)
    got = np.asarray(hlo2onnx.translate(function, x, target=target)(x))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, exact(x.astype(np.float64)), rtol=1e-5, atol=1e-6)
    if name in ("Cos", "Sin", "Tan"):
        far = np.array([1.1e5, -3e38], np.float32)
        assert np.isnan(np.asarray(hlo2onnx.translate(function, far, target=target)(far))).all()
