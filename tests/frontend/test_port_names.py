"""`input_names=` and `output_names=`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import pytest

import hlo2onnx
from hlo2onnx.cli import main
from hlo2onnx.errors import UsageError
from hlo2onnx.lowering.lower import STATES

X, Y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
TEXT = """
func.func @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.add %arg0, %arg1 : tensor<3xf32>
  return %0, %arg0 : tensor<3xf32>, tensor<3xf32>
}
"""


def both(x: jax.Array, y: jax.Array) -> dict[str, jax.Array]:
    return {"sum": x + y, "same": x}


OUTPUTS = ["same", "sum"]
NAMES: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({}, ["x", "y"], OUTPUTS),
    ({"input_names": ["a", "b"]}, ["a", "b"], OUTPUTS),
    ({"input_names": ("y", "x")}, ["y", "x"], OUTPUTS),
    ({"input_names": {"y": "b"}}, ["x", "b"], OUTPUTS),
    ({"input_names": {}, "output_names": {"sum": "total"}}, ["x", "y"], ["same", "total"]),
    ({"output_names": ["s", "t"]}, ["x", "y"], ["s", "t"]),
    ({"input_names": ["Add", "b"], "output_names": ["c", "d"]}, ["Add", "b"], ["c", "d"]),
    ({"output_names": ["Identity", "Add"]}, ["x", "y"], ["Identity", "Add"]),
]


@pytest.mark.parametrize(("options", "inputs", "outputs"), NAMES)
def test_names(options: dict[str, Any], inputs: list[str], outputs: list[str]) -> None:
    program = hlo2onnx.translate(both, X, Y, **options)
    assert (program.input_names, program.output_names) == (inputs, outputs)
    onnx.checker.check_model(program.model_proto)
    results = program(X, Y)
    np.testing.assert_array_equal(results["sum"], X + Y)
    assert program.verify().ok
    program.explain("softmax")


def test_one_name_as_a_text() -> None:
    assert hlo2onnx.translate(lambda x: x + 1, X, input_names="image").input_names == ["image"]


def test_arguments_that_nobody_reads_may_be_named() -> None:
    def function(x: jax.Array, y: jax.Array, z: jax.Array) -> jax.Array:
        return z - x

    for names in (["a", "b", "c"], ["a", "c"]):
        assert hlo2onnx.translate(function, X, X, X, input_names=names).input_names == ["a", "c"]


def test_layouts_take_the_new_names() -> None:
    image = np.ones((1, 2, 2, 3), np.float32)
    names = {"input_names": ["image"], "inputs_as_nchw": ["image"]}
    program = hlo2onnx.translate(lambda x: x.sum((1, 2)), image, **names)
    assert tuple(program.model.graph.inputs[0].shape) == (1, 3, 2, 2)


def test_states_have_the_new_names() -> None:
    lowered = jax.jit(lambda x, y: (x + y, y * 2), donate_argnums=0).lower(X, Y)
    program = hlo2onnx.translate(lowered, input_names=["a", "b"], output_names=["c", "d"])
    assert json.loads(program.model.metadata_props[STATES]) == {"c": "a"}


def test_weights_keep_theirs() -> None:
    weight = np.arange(20, dtype=np.float32)
    program = hlo2onnx.translate(
        lambda w, x: w * x, weight, weight, bind=["w"], input_names={"x": "image"}
    )
    assert program.input_names == ["image"]
    assert "w" in program.model.graph.initializers


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"input_names": 3}, "input_names=3 is neither a list of names nor a mapping"),
    ({"input_names": ["a"]}, "input_names has 1 names for 2 inputs: x, y"),
    ({"input_names": ["a", "b", "c"]}, "3 names for 2 inputs"),
    ({"input_names": ["a", "a"]}, "gives the name a to several inputs"),
    ({"input_names": {"x": "y"}}, "gives the name y to several inputs"),
    ({"input_names": {"z": "a"}}, "no input is named 'z'; there is x, y"),
    ({"input_names": ["a", 3]}, "3 is not a name"),
    ({"input_names": {"x": ""}}, "'' is not a name"),
    ({"output_names": ["a"]}, "1 names for 2 outputs: same, sum"),
    ({"output_names": ["x", "b"]}, "'x' would be the name of an input and an output"),
    ({"input_names": {"x": OUTPUTS[0]}}, "'same' would be the name of an input and an"),
    ({"input_names": ["a", "b"], "output_names": ["b", "c"]}, "'b' would be the name of an input"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_names(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hlo2onnx.translate(both, X, Y, **options)


def test_the_name_of_a_weight() -> None:
    with pytest.raises(UsageError, match="'w' would be the name of a weight and an input"):
        hlo2onnx.translate(lambda w, x: w * x, X, X, bind=["w"], input_names=["w"])


@pytest.mark.parametrize(
    ("arguments", "inputs", "outputs"),
    [
        (["--input-names", "a,b"], ["a", "b"], ["result0", "result1"]),
        (["--input-names", "arg1=b"], ["arg0", "b"], ["result0", "result1"]),
        (["--output-names", "s, t"], ["arg0", "arg1"], ["s", "t"]),
    ],
)
def test_the_command(
    arguments: list[str], inputs: list[str], outputs: list[str], tmp_path: Path
) -> None:
    (tmp_path / "model.mlir").write_text(TEXT)
    assert main([str(tmp_path / "model.mlir"), "-o", str(tmp_path / "m.onnx"), *arguments]) == 0
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert [value.name for value in graph.input] == inputs
    assert [value.name for value in graph.output] == outputs


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.mlir").write_text(TEXT)
    command = [str(tmp_path / "model.mlir"), "-o", str(tmp_path / "m.onnx"), "--input-names"]
    assert main([*command, "a"]) == 2
    assert "1 names for 2 inputs: arg0, arg1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "arg0=a,b"])
    assert "mixes new names with pairs OLD=NEW" in capsys.readouterr().err
