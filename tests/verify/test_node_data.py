"""`save_node_data`: errors, times and rules of nodes for Model Explorer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx

X = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)


@jax.jit
def step(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x @ x)


def model(x: jax.Array) -> jax.Array:
    x = jax.lax.fori_loop(0, x[0, 0].astype(int) + 5, lambda i, x: step(x), x)

    def branch(x: jax.Array) -> jax.Array:
        x = jax.lax.fori_loop(0, x[0, 1].astype(int) + 3, lambda i, x: step(x), x)
        return jax.lax.cond(x[0, 0] > 0, step, lambda x: step(x) @ x, x)

    return jax.lax.cond(x.sum() > 0, branch, jnp.sin, x) + step(x)


@pytest.fixture(scope="module")
def program() -> hlo2onnx.OnnxProgram:
    return hlo2onnx.translate(model, X, functions="keep")


def read(paths: list[Path]) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text("utf-8")) for path in paths}


def test_each_data_set(program: hlo2onnx.OnnxProgram, tmp_path: Path) -> None:
    found = program.verify(X)
    paths = program.save_node_data(
        tmp_path / "new" / "nodes",
        verification=found,
        profile=program.profile(X, runs=2),
        errors={"unknown": 1.0},
    )
    data = read(paths)
    assert list(data) == ["errors.json", "times.json", "rules.json"]
    (last,) = [value.producer() for value in program.model.graph.outputs]
    assert last is not None
    results = data["errors.json"]["main"]["results"]
    assert results == {last.name: {"value": found.optimized[0].max_rel}}
    times = data["times.json"]
    assert all(item["value"] >= 0 for each in times.values() for item in each["results"].values())
    assert {each["name"] for each in times.values()} == {"milliseconds"}
    assert [each["stop"] for each in times["main"]["gradient"]] == [0, 1]
    (loop,) = [node.name for node in program.model.graph if node.op_type == "Loop"]
    (branches,) = [node.name for node in program.model.graph if node.op_type == "If"]
    assert f"{loop}/body" in times
    assert any(name.startswith(f"{branches}/then_branch/") for name in times["main"]["results"])


def test_rules_are_in_functions(program: hlo2onnx.OnnxProgram, tmp_path: Path) -> None:
    data = read(program.save_node_data(tmp_path))
    assert list(data) == ["rules.json"]
    (function,) = program.model.functions.values()
    results = data["rules.json"][f"[function]hlo2onnx::{function.name}"]["results"]
    (softmax,) = [node.name for node in function if node.op_type == "Softmax"]
    assert "softmax" in results[softmax]["value"].split(", ")
    assert len(results[softmax]["bgColor"]) == len("#rrggbb")


def test_errors_without_a_number(program: hlo2onnx.OnnxProgram, tmp_path: Path) -> None:
    names = [str(node.outputs[0].name) for node in program.model.graph][:2]
    errors = dict(zip(names, [np.nan, np.inf], strict=True))
    data = read(program.save_node_data(tmp_path, errors=errors))["errors.json"]["main"]
    assert [item["value"] for item in data["results"].values()] == [1e30, 1e30]


def test_a_loaded_program(program: hlo2onnx.OnnxProgram, tmp_path: Path) -> None:
    program.save(tmp_path / "model.onnx")
    loaded = hlo2onnx.load(tmp_path / "model.onnx")
    assert loaded.save_node_data(tmp_path / "nodes") == []
    with pytest.raises(hlo2onnx.UsageError, match="it is a file"):
        loaded.save_node_data(tmp_path / "model.onnx")


@pytest.mark.wide
@pytest.mark.parametrize("functions", ["inline", "keep"])
def test_model_explorer_reads_them(functions: Any, tmp_path: Path) -> None:
    """Its own classes take the data, and its graphs have all nodes that the data name."""
    builder = pytest.importorskip("model_explorer.node_data_builder")
    adapter = pytest.importorskip("model_explorer_onnx.main").ONNXAdapter()
    program = hlo2onnx.translate(model, X, functions=functions)
    program.save(tmp_path / "model.onnx")
    graphs = adapter.convert(str(tmp_path / "model.onnx"), {})["graphs"]
    nodes = {graph.id: {node.id for node in graph.nodes} for graph in graphs}
    paths = program.save_node_data(
        tmp_path, verification=program.verify(X), profile=program.profile(X, runs=2)
    )
    assert len(paths) == 3
    for data in read(paths).values():
        assert data.keys() <= nodes.keys()
        typed = {}
        for name, graph in data.items():
            results = {
                key: builder.NodeDataResult(**item) for key, item in graph["results"].items()
            }
            assert results.keys() <= nodes[name]
            gradient = [builder.GradientItem(**item) for item in graph["gradient"]]
            typed[name] = builder.GraphNodeData(results, graph["name"], gradient=gradient)
        written = json.loads(builder.ModelNodeData(typed).to_json_string())
        for name, graph in data.items():
            assert graph.items() <= written[name].items()
