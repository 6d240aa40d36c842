"""Runtimes that compute integers in f32: nodes stay where all numbers fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as oir
import pytest

from hlo2onnx import TranslationError, translate
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.facts import Facts
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize.kernels import fits

I64, I32, FLOAT = oir.DataType.INT64, oir.DataType.INT32, oir.DataType.FLOAT
SUM = """
module { func.func public @main(%x: tensor<3xi64>, %n: tensor<3xi16>) -> tensor<3xi64> {
  %m = stablehlo.convert %n : (tensor<3xi16>) -> tensor<3xi64>
  %0 = stablehlo.add %OPERAND, %m : tensor<3xi64>
  return %0 : tensor<3xi64>
} }
"""
CAST = """
module { func.func public @main(%x: tensor<3xi64>, %n: tensor<3xi16>) -> tensor<3xi32> {
  %m = stablehlo.convert %n : (tensor<3xi16>) -> tensor<3xi64>
  %0 = stablehlo.convert %OPERAND : (tensor<3xi64>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
} }
"""
COMPARED = """
module { func.func public @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xi1> {
  %0 = stablehlo.compare KIND, %x, %y : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  return %0 : tensor<3xi1>
} }
"""


def table(folder: Path, **given: object) -> Path:
    rows = {"Add": {"17-": "i64"}}
    path = folder / "narrow.json"
    own = {"ops": {"Add": {"17-": "f32 i32"}}, "wrong": rows, "limited": rows, **given}
    path.write_text(json.dumps({"extends": "ort-cpu", "narrows_i64": True, **own}))
    return path


def test_sums_that_fit_stay(tmp_path: Path) -> None:
    program = translate(SUM.replace("OPERAND", "m"), target=table(tmp_path))
    assert program.report.nodes == {"Cast": 1, "Add": 1}


def test_sums_that_may_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TranslationError, match="narrow computes 64-bit integers in 32 bits"):
        translate(SUM.replace("OPERAND", "x"), target=table(tmp_path))


def test_a_kernel_that_is_wrong_for_small_numbers_too(tmp_path: Path) -> None:
    with pytest.raises(TranslationError, match="narrow has no kernel for it in this type"):
        translate(SUM.replace("OPERAND", "m"), target=table(tmp_path, limited={"Add": {}}))


def test_casts(tmp_path: Path) -> None:
    """A pair of types that is right within limits."""
    pairs = {"Cast": {"i16": {"17-": "i64"}, "i32": {"17-": "i32"}}}
    limited = {"Cast": {"i64": {"17-": "i32"}, "i16": {"17-": "i32"}}}
    target = table(tmp_path, pairs=pairs, limited_pairs=limited)
    program = translate(CAST.replace("OPERAND", "m"), target=target)
    assert set(program.report.nodes) == {"Cast"}
    with pytest.raises(TranslationError, match="Cast"):
        translate(CAST.replace("OPERAND", "x"), target=target)


def test_which_numbers_must_fit(tmp_path: Path) -> None:
    """A sum, which is right on i32, into i32; a product into f32; one side of a comparison."""
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 21})
    b = GraphBuilder(graph, 21)
    x, f, n = b.value("x", I64, [4]), b.value("f", FLOAT, [4]), b.value("n", I32, [4])
    small = b.Clip(x, b.i64(-5), b.i64(5))
    large = b.Clip(x, b.i64(0), b.i64((1 << 31) - 1))
    below = b.Clip(x, b.i64(0), b.i64((1 << 24) - 1))
    ops = {"Add": {"17-": "i32"}, "Mul": {}, "Less": {}}
    target = load_target(str(table(tmp_path, ops=ops)))
    for made, is_right in [
        (b.Add(small, small), True),
        (b.Add(large, small), False),
        (b.Add(large, b.i64(0)), True),
        (b.Mul(small, small), True),
        (b.Mul(below, b.i64(2)), False),
        (b.Less(large, small), True),
        (b.Less(large, large), False),
        (b.Less(x, small), False),
        (b.Less(n, b.scalar_like((1 << 24) - 1, n)), True),
        (b.Less(n, b.scalar_like(1 << 24, n)), False),
        (b.Reshape(large, b.i64([2, 2])), True),
        (b.Reshape(x, b.i64([2, 2])), False),
        (b.Slice(small, b.i64([1]), b.i64([(1 << 63) - 1])), True),
        (b.Gather(f, small, axis=0), True),
    ]:
        node = made.producer()
        assert node is not None
        assert fits(node, Facts(), target, 21) == is_right, node


@pytest.mark.parametrize(("kind", "made"), [("GT", "Less"), ("GE", "LessOrEqual")])
def test_comparisons_by_the_opposite_ones(kind: str, made: str, tmp_path: Path) -> None:
    ops = {"Greater": {}, "GreaterOrEqual": {}}
    program = translate(COMPARED.replace("KIND", kind), target=table(tmp_path, ops=ops))
    assert program.report.nodes == {made: 1}
    x = np.array([0, np.nan, 2], np.float32)
    y = np.array([np.nan, 0, 1], np.float32)
    assert program.verify(x, y).ok


def test_bounds_that_lose_nan_are_a_policy(tmp_path: Path) -> None:
    rows = {"Max": {"17-": "f32"}}
    given = {"ops": {"Max": {}}, "wrong": rows, "limited": rows, "misorders_nan": True}
    target = table(tmp_path, **given)
    text = COMPARED.replace("stablehlo.compare KIND, %x, %y : (tensor<3xf32>, tensor<3xf32>) ->",
                            "stablehlo.maximum %x, %y :").replace("xi1", "xf32")  # fmt: skip
    assert translate(text, target=target).report.nodes == {"Max": 1}
    with pytest.raises(TranslationError, match="Max"):
        translate(text, target=target, nan="xla")


def test_f64_that_is_computed_in_f32_is_refused(tmp_path: Path) -> None:
    target = table(tmp_path, narrows_f64=True)
    text = COMPARED.replace("stablehlo.compare KIND, %x, %y : (tensor<3xf32>, tensor<3xf32>) ->",
                            "stablehlo.multiply %x, %y :").replace("xi1", "xf32")  # fmt: skip
    assert translate(text, target=target).report.nodes == {"Mul": 1}
    assert translate(text.replace("f32", "f64")).report.nodes == {"Mul": 1}
    with pytest.raises(TranslationError, match="Mul"):
        translate(text.replace("f32", "f64"), target=target)


def test_comparisons_of_halves_end(tmp_path: Path) -> None:
    """f16 goes through f32, whatever the target has."""
    text = COMPARED.replace("KIND", "GT").replace("f32", "f16")
    for ops in ({}, {"Greater": {}}, {"Greater": {}, "GreaterOrEqual": {}}):
        found = translate(text, target=table(tmp_path, ops=ops)).report.nodes
        assert set(found) == {"Cast", "Less" if ops else "Greater"}
