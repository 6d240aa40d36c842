"""The stages as a whole: dumps, options, errors that list everything."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx import pipeline

X = np.ones((2, 3), np.float32)


def test_dump_writes_every_stage(tmp_path: Path) -> None:
    hlo2onnx.translate(jax.jit(lambda x: x + 1).lower(X), dump=tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "00_load.mlir",
        "01_normalize.mlir",
        "02_lower.txt",
        "03_raise.txt",
        "04_legalize.txt",
        "rules.txt",
    ]
    assert all(path.read_text() for path in tmp_path.iterdir())


def test_dump_logs_every_rule_that_fired(tmp_path: Path) -> None:
    program = hlo2onnx.translate(jax.jit(lambda x: jax.nn.softmax(x) * 2).lower(X), dump=tmp_path)
    head, *lines = (tmp_path / "rules.txt").read_text().splitlines()
    assert head.startswith("#")
    assert Counter(line.split()[0] for line in lines) == program.report.rules
    (softmax,) = (line for line in lines if line.startswith("softmax  "))
    assert re.fullmatch(r"softmax  Div (\S+) -> Softmax \1  tests/test_pipeline.py:\d+", softmax)


def test_the_log_of_rules_survives_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(pipeline, "legalize", broken)
    with pytest.raises(ZeroDivisionError):
        hlo2onnx.translate(jax.jit(jax.nn.softmax).lower(X), dump=tmp_path)
    assert "\nsoftmax  Div" in (tmp_path / "rules.txt").read_text()


@pytest.mark.costly
@pytest.mark.parametrize("opset", range(17, 27))
def test_every_opset_of_the_target(opset: int) -> None:
    program = hlo2onnx.translate(jax.jit(lambda x: jax.numpy.tanh(x) + 1).lower(X), opset=opset)
    assert program.model.graph.opset_imports[""] == opset
    assert program.verify().ok


NARROW = """
module {{ func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4x{type}>
  %1 = stablehlo.convert %0 : (tensor<4x{type}>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}} }}
"""


@pytest.mark.parametrize(("type", "opset"), [("i4", 21), ("i2", 25), ("f8E8M0FNU", 24)])
def test_the_opset_follows_the_types(type: str, opset: int) -> None:
    program = hlo2onnx.translate(NARROW.format(type=type))
    assert program.report.opset == opset
    assert len(program.report.notes) == (opset > 21)
    assert program.verify().ok
    with pytest.raises(hlo2onnx.TranslationError, match=r"opset \d+ has no element type"):
        hlo2onnx.translate(NARROW.format(type=type), opset=20)
