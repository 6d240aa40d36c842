"""program.profile() and --profile: every operator has its time, and loops do not count twice."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.cli import main

X = np.ones((64, 64), np.float32)


def layered(x: jax.Array) -> jax.Array:
    with jax.named_scope("first"):
        x = jnp.tanh(x @ x)
    with jax.named_scope("second"):
        return jnp.sort(x @ x, axis=1)


def test_operators_and_scopes() -> None:
    found = hlo2onnx.translate(jax.jit(layered).lower(X)).profile(X, runs=3, depth=1)
    names = {share.name for share in found.operators}
    assert {"MatMul", "Tanh"} <= names
    assert {share.name for share in found.scopes} >= {"first", "second"}
    for shares in (found.operators, found.scopes):
        assert sum(share.part for share in shares) == pytest.approx(1)
        assert sum(share.milliseconds for share in shares) == pytest.approx(found.milliseconds)
        assert shares == sorted(shares, key=lambda share: -share.milliseconds)
    assert "MatMul" in str(found) and "scope" in str(found)


def test_random_inputs_are_made_where_none_are_given() -> None:
    assert hlo2onnx.translate(jax.jit(layered).lower(X)).profile(runs=1).milliseconds > 0


def test_a_loop_does_not_count_its_body() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda x: x[0, 0] < 40, lambda x: x + jnp.sort(x), x)

    x = np.ones((300, 300), np.float32)
    found = hlo2onnx.translate(jax.jit(f).lower(x)).profile(x, runs=3)
    parts = {share.name: share.part for share in found.operators}
    assert sum(parts.values()) == pytest.approx(1)
    assert parts["Loop"] < 0.5, parts


def test_the_picture(tmp_path: Path) -> None:
    found = hlo2onnx.translate(jax.jit(layered).lower(X)).profile(runs=1)
    found.save(tmp_path / "profile.svg")
    root = ElementTree.parse(tmp_path / "profile.svg").getroot()
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("MatMul") for text in texts)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "f.mlir"
    module.write_text(jax.jit(layered).lower(X).as_text())
    output, picture = tmp_path / "f.onnx", tmp_path / "f.svg"
    assert main([str(module), "-o", str(output), "--profile", "--profile-svg", str(picture)]) == 0
    assert "ms in nodes" in capsys.readouterr().out
    assert picture.exists() and sorted(p.name for p in tmp_path.iterdir()) == [
        "f.mlir", "f.onnx", "f.svg",
    ]  # fmt: skip
