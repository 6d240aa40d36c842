"""The opset of a model by default: the oldest that loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest

from hlo2onnx import translate
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.functions import each_graph
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize.opsets import oldest_opset
from hlo2onnx.targets.target import DEFAULT_OPSET, NEWER_OPSET, schemas

FLOAT = oir.DataType.FLOAT
X = np.linspace(-2, 3, 24, dtype=np.float32).reshape(4, 6)


def rms(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * jnp.arange(6.0)


def table(folder: Path, given: Mapping[str, Any]) -> str:
    path = folder / "own.json"
    path.write_text(json.dumps({"extends": "ort-cpu", **given}))
    return str(path)


def test_an_operator_of_a_newer_opset() -> None:
    program = translate(rms, X)
    assert program.report.nodes["RMSNormalization"] == 1
    assert (program.report.opset, program.model.opset_imports[""]) == (23, 23)
    assert program.report.notes == ["opset 23 instead of 21: the model has RMSNormalization"]
    assert program.verify(X).ok


def test_nothing_newer() -> None:
    program = translate(jnp.sin, X)
    assert (program.report.opset, program.model.opset_imports[""]) == (21, 21)
    assert program.model.ir_version == 10
    assert not program.report.notes


def bits_of(x: jax.Array) -> jax.Array:
    return jax.lax.bitcast_convert_type(x, jnp.int32)


def test_what_needs_a_newer_opset_becomes_a_constant() -> None:
    def shifted(x: jax.Array) -> jax.Array:
        return x + bits_of(jnp.linspace(0.0, 1.0, 6) * 2)

    x = np.arange(6, dtype=np.int32)
    program = translate(shifted, x)
    assert (program.report.opset, program.model.opset_imports[""]) == (21, 21)
    assert program.model.ir_version == 10
    assert not program.report.notes
    np.testing.assert_array_equal(program(x), jax.jit(shifted)(x))


def test_a_newer_opset_that_stays() -> None:
    program = translate(bits_of, X)
    assert program.report.opset == 26
    assert program.report.notes == ["opset 26 instead of 21: the program needs BitCast"]


def test_an_operator_of_a_newer_opset_beside_a_constant() -> None:
    y = np.arange(6, dtype=np.int32)
    program = translate(lambda x, y: (rms(x), y + bits_of(jnp.linspace(0.0, 1.0, 6) * 2)), X, y)
    assert program.report.opset == 23
    assert program.report.notes == ["opset 23 instead of 21: the model has RMSNormalization"]


@pytest.mark.parametrize("opset", [20, 22, 23])
def test_an_explicit_opset_is_obeyed(opset: int) -> None:
    program = translate(rms, X, opset=opset)
    assert program.report.opset == opset
    assert program.report.nodes["RMSNormalization"] == (opset == 23)
    assert translate(jnp.sin, X, opset=opset).report.opset == opset


def steps(x: jax.Array) -> jax.Array:
    return jax.lax.while_loop(lambda x: x.sum() < 9, jnp.sin, x)


@pytest.mark.parametrize(
    ("function", "opset"),
    [(jnp.sin, 22), (jnp.cos, 21), (lambda x: x.astype("i4"), 23), (steps, 22)],
)
def test_kernels_and_pairs_of_newer_opsets(
    function: Callable[..., Any], opset: int, tmp_path: Path
) -> None:
    own = {
        "ops": {"Sin": {"22-": "f32"}},
        "pairs": {"Cast": {"f32": {"17-": "f64", "23-": "i32"}}},
    }
    assert translate(function, X, target=table(tmp_path, own)).report.opset == opset


@pytest.mark.parametrize(("function", "opset"), [(rms, 23), (jnp.sin, 21)])
def test_functions_have_the_opset_of_the_model(function: Any, opset: int) -> None:
    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        return jnp.cos(x) * function(x)

    program = translate(lambda x: inner(inner(x)), X, functions="keep")
    opsets = [graph.opset_imports[""] for graph in each_graph(program.model)]
    assert len(opsets) > 1 and set(opsets) == {opset}
    assert program.verify(X).ok


def graph_of(op_type: str, *inputs: np.ndarray, **attributes: Any) -> oir.Graph:
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 23})
    b = GraphBuilder(graph, 23)
    b.node(op_type, [b.const(array) for array in inputs], attributes, [(FLOAT, ())])
    return graph


def test_the_form_of_a_newer_opset(tmp_path: Path) -> None:
    old = load_target(table(tmp_path, {"default_opset": 18}))
    dft = graph_of("DFT", X.reshape(4, 6, 1), np.array(6), np.array(1))
    assert oldest_opset([dft], old, 23) == (20, "DFT")
    codes, scale = np.ones(3, np.int8), np.array(0.5, np.float32)
    plain = graph_of("DequantizeLinear", codes, scale)
    assert oldest_opset([plain], old, 23) == (18, "")
    typed = graph_of("DequantizeLinear", codes, scale, output_dtype=1)
    assert oldest_opset([plain, typed], old, 23) == (23, "DequantizeLinear")


def test_the_usual_opsets_differ_in_nothing_else() -> None:
    """A node without new inputs and attributes means the same in all of them."""
    for name, versions in schemas().items():
        known = [v for v in sorted(versions) if v <= NEWER_OPSET]
        usual = known[-1:] if known and known[-1] <= DEFAULT_OPSET else known
        old = max((v for v in usual if v <= DEFAULT_OPSET), default=None)
        if old is None:
            continue
        first, last = versions[old], versions[known[-1]]
        names = [item.name for item in first.inputs]
        assert names == [item.name for item in last.inputs][: len(names)], name
        for key, attribute in first.attributes.items():
            assert str(attribute.default_value) == str(last.attributes[key].default_value), name
