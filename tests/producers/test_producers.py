"""Programs as other producers write them.

The first line of each file names the packages that wrote it, or says that it was written by hand in
the style of a producer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxlib.mlir.dialects import stablehlo

import hlo2onnx
from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.frontend.mlir.passes import EXPAND_CHLO, run_pipeline
from hlo2onnx.frontend.mlir.values import module_bytecode

FILES = {file.stem: file for file in sorted(Path(__file__).parent.glob("*.mlir"))}
FUNCTIONS = dict.fromkeys(FILES) | {"functions": "encode"}


def flat_results(program: hlo2onnx.OnnxProgram) -> list[np.ndarray]:
    """The results on random numbers; free extents are 4."""
    rng = np.random.default_rng(0)
    arrays = []
    for value in program.model.graph.inputs:
        shape = [extent if isinstance(extent, int) else 4 for extent in value.shape]
        arrays.append(np.abs(rng.normal(size=shape)).astype(value.dtype.numpy()))
    return program.run(arrays)


@pytest.mark.costly
@pytest.mark.parametrize("name", FILES)
def test_equal_to_xla(name: str) -> None:
    program = hlo2onnx.translate(FILES[name], function=FUNCTIONS[name])
    verification = program.verify()
    assert verification.ok, verification


def test_products_that_may_saturate_are_named() -> None:
    report = hlo2onnx.translate(FILES["quantized_dense"]).report
    assert [text for text in report.notes if "session.x64quantprecision" in text]
    report = hlo2onnx.translate(FILES["quantized_dense"], target="ort-web").report
    assert not [text for text in report.notes if "session.x64quantprecision" in text]


def test_each_file_says_how_it_was_made() -> None:
    for file in FILES.values():
        head = file.read_text().partition("\n")[0]
        assert head.startswith("// By "), file
        assert "/site-packages/" not in file.read_text()


@pytest.mark.wide
def test_what_is_raised() -> None:
    """Whoever wrote it: the ops that a reader expects."""
    nodes = {
        name: hlo2onnx.translate(FILES[name]).report.nodes for name in FILES.keys() - {"functions"}
    }
    for name in ("keras_cnn", "tensorflow_cnn", "torchax_cnn", "linen"):
        assert nodes[name]["Conv"] >= 2, name
    for name in ("keras_cnn", "tensorflow_text", "torchax_text", "nnx", "linen", "pytorch_xla"):
        found = (nodes[name][each] for each in ("Attention", "LogSoftmax", "Softmax"))
        assert sum(found) >= 1, name
    assert nodes["keras_text"]["LSTM"] == 1, "of both directions"
    assert nodes["equinox"]["GRU"] == 1


# -- several functions ----------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["encode", "@decode"])
def test_a_function_by_name(function: str) -> None:
    program = hlo2onnx.translate(FILES["functions"], function=function)
    assert program.verify().ok
    with pytest.raises(hlo2onnx.LoadError, match="--function"):
        hlo2onnx.translate(FILES["functions"])


# -- tuples, marks, unnamed dimensions ------------------------------------------------------------


def test_members_of_tuples_are_outputs() -> None:
    program = hlo2onnx.translate(FILES["tuples"])
    assert program.output_names == ["result/0", "result/1/0", "result/1/1"]


def test_marks_and_layouts_leave_nothing() -> None:
    program = hlo2onnx.translate(FILES["pytorch_xla"])
    assert program.report.nodes.total() <= 11


def test_aliases_are_states() -> None:
    program = hlo2onnx.translate(FILES["reactant"])
    assert "hlo2onnx.states" in program.model.metadata_props
    arrays = [np.ones((5, 3)), np.eye(3), np.float64(2)]
    value, state = program.step(*arrays)
    assert isinstance(state, hlo2onnx.StateArray)
    np.testing.assert_array_equal(state.numpy(), 2 * arrays[0])
    np.testing.assert_array_equal(value, 34)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_unnamed_dimensions(rows: int) -> None:
    program = hlo2onnx.translate(FILES["unnamed_dims"])
    x, y = np.ones((rows, 3), np.float32), np.ones((2, rows + 1), np.float32)
    assert program.verify(x, y).ok
    static = hlo2onnx.translate(
        FILES["unnamed_dims"],
        specialize={"arg0_dim0": rows, "arg1_dim0": 2, "arg1_dim1": rows + 1},
    )
    for got, want in zip(static(x, y), program(x, y), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_sizes_outside_of_stablehlo(rows: int) -> None:
    program = hlo2onnx.translate(FILES["torch_mlir"])
    x, y = np.ones((rows, 3), np.float32), np.ones((rows, 4), np.float32)
    z = np.arange(4 * rows + 4, dtype=np.float32).reshape(-1, 2, 2)
    assert program.verify(x, y, z).ok
    product, flat, rest = program(x, y, z)
    np.testing.assert_array_equal(product, [[5, 5.75, 1, 4.5]] * rows)
    assert flat.shape == (4 * rows,)
    np.testing.assert_array_equal(rest, z.reshape(-1, 4))


SIZES = """
func.func @main(%x: tensor<?x3xf32>, %n: tensor<i64>) -> tensor<?xf32> {{
  %c0 = arith.constant 0 : index
  %c3 = arith.constant {three} : i64
  %d = tensor.dim %x, %c0 : tensor<?x3xf32>
  %i = arith.index_cast %d : index to i64
  %r = {op} %i, %c3 : i64
  %s = tensor.from_elements %r : tensor<1xi64>
  %y = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}}"""


@pytest.mark.parametrize(
    ("op", "size"),
    [
        ("addi", 8),
        ("subi", 2),
        ("muli", 15),
        ("divsi", 1),
        ("remsi", 2),
        ("maxsi", 5),
        ("minsi", 3),
    ],
)
def test_arithmetic_of_sizes(op: str, size: int) -> None:
    program = hlo2onnx.translate(SIZES.format(op=f"arith.{op}", three=3))
    x = np.ones((5, 3), np.float32)
    np.testing.assert_array_equal(program(x, np.int64(0)), np.arange(size))
    assert program.verify(x, np.int64(0)).ok


def test_unknown_ops_on_sizes_are_refused() -> None:
    with pytest.raises(hlo2onnx.TranslationError, match=r"arith\.shli"):
        hlo2onnx.translate(SIZES.format(op="arith.shli", three=3))


def test_one_bit_is_not_a_number() -> None:
    text = """
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %t = arith.constant true
  %i = arith.extsi %t : i1 to i64
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %e = arith.index_cast %d : index to i64
  %r = arith.subi %e, %i : i64
  %s = tensor.from_elements %r : tensor<1xi64>
  %y = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}"""
    with pytest.raises(hlo2onnx.TranslationError, match=r"arith\.subi"):
        hlo2onnx.translate(text)


@pytest.mark.parametrize("op", ["addi", "maxsi"])
def test_numbers_of_one_bit_are_no_truth_values(op: str) -> None:
    """1 + 1 is 0 in them, and 1 is less than 0."""
    text = f"""
func.func @main(%x: tensor<2xi1>) -> tensor<1xi1> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = tensor.extract %x[%c0] : tensor<2xi1>
  %b = tensor.extract %x[%c1] : tensor<2xi1>
  %r = arith.{op} %a, %b : i1
  %s = tensor.from_elements %r : tensor<1xi1>
  return %s : tensor<1xi1>
}}"""
    with pytest.raises(hlo2onnx.TranslationError, match=rf"arith\.{op}"):
        hlo2onnx.translate(text)


def test_a_size_as_result_is_refused() -> None:
    text = """
func.func @main(%x: tensor<?xf32>) -> index {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  return %d : index
}"""
    with pytest.raises(hlo2onnx.LoadError, match="not a ranked tensor"):
        hlo2onnx.translate(text)


# -- the forms of a module ------------------------------------------------------------------------


def _bytecode(module: Any, version: str) -> bytes:
    return module_bytecode(module.operation)


def _artifact(module: Any, version: str) -> bytes:
    # StableHLO's promise does not cover CHLO.
    run_pipeline(module.operation, EXPAND_CHLO)
    content: bytes = stablehlo.serialize_portable_artifact(module, version)
    return content


FORMS: dict[str, tuple[Callable[[Any, str], bytes], str]] = {
    "bytecode": (_bytecode, ""),
    "newest artifact": (_artifact, stablehlo.get_current_version()),
    "oldest artifact": (_artifact, stablehlo.get_minimum_version()),
}


@pytest.mark.wide
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["haiku", "linen", "tensorflow_loop", "tuples", "unnamed_dims"])
def test_forms(name: str, form: str) -> None:
    _check_form(name, *FORMS[form])


MINORS = [f"0.{minor}.0" for minor in range(9, 21)] + [
    f"1.{minor}.0" for minor in range(int(stablehlo.get_current_version().split(".")[1]) + 1)
]
"""The versions of StableHLO from the oldest that is still written to this jaxlib's."""


def test_the_window_of_versions() -> None:
    assert MINORS[0] == stablehlo.get_minimum_version()
    assert MINORS[-1].rpartition(".")[0] == stablehlo.get_current_version().rpartition(".")[0]


@pytest.mark.wide
@pytest.mark.parametrize("version", MINORS[4:-1:6])
def test_artifacts_of_versions_between(version: str) -> None:
    _check_form("keras_text", _artifact, version)


SINCE = {
    "optax": MINORS.index("1.1.0"),
    "quantized_cnn": MINORS.index("0.18.0"),
    "quantized_dense": MINORS.index("0.18.0"),
}
"""The first version that has all of a program: batching dimensions of gathers, and constants with
scales along an axis."""


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "version"),
    [(n, v) for n in FILES for v in MINORS[SINCE.get(n, 0) :] if n != "torch_mlir"],
)
def test_artifacts_of_every_version(name: str, version: str) -> None:
    _check_form(name, _artifact, version)


def _check_form(name: str, write: Callable[[Any, str], bytes], version: str) -> None:
    """The same model, up to what expanding CHLO first makes different."""
    text = FILES[name].read_text()
    program = hlo2onnx.translate(text, function=FUNCTIONS[name])
    content = write(parse_module(text, name), version)
    again = hlo2onnx.translate(content, function=FUNCTIONS[name])
    for got, want in zip(flat_results(again), flat_results(program), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
