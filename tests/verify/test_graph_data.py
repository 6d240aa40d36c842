"""The graph as data: scopes and bodies are groups, and groups make no circles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir

import hlo2onnx
from hlo2onnx.verify.graph import CHUNK, GraphData, Group, Instances, graph_data

X = np.ones((4, 4), np.float32)


def data_of(function: object, *args: object, **options: object) -> GraphData:
    lowered = jax.jit(function).lower(*args)  # type: ignore[arg-type]
    return graph_data(hlo2onnx.translate(lowered, **options).model)


def path(data: GraphData, node: int) -> list[str]:
    group, found = data.nodes[node][0], []
    while group > 0:
        found.append(data.groups[group].name)
        group = data.groups[group].parent
    return found[::-1]


def paths(data: GraphData) -> dict[str, list[str]]:
    """The last node of each operator."""
    return {str(node[1]): path(data, place) for place, node in enumerate(data.nodes)}


def layer(x: jax.Array) -> jax.Array:
    with jax.named_scope("layer"):
        return jnp.tanh(x @ x)


def test_scopes_types_and_sources() -> None:
    def net(x: jax.Array) -> jax.Array:
        with jax.named_scope("net"):
            return layer(x)

    data = data_of(net, X)
    assert paths(data)["Tanh"] == ["net", "layer"]
    tanh = next(node for node in data.nodes if node[1] == "Tanh")
    assert [data.texts[place] for place in tanh[4]] == ["float32[4, 4]"]
    assert data.texts[tanh[7]].startswith("tests/verify/test_graph_data.py:")
    makers = [data.nodes[place][1] for place in tanh[3]]
    assert makers == ["MatMul"]


def test_a_scope_that_is_entered_again_has_two_groups() -> None:
    """In one group, the Sin between them would need the group, and the group the Sin."""
    data = data_of(lambda x: layer(jnp.sin(layer(x))), X)
    groups = [path(data, place) for place, node in enumerate(data.nodes) if node[1] == "Tanh"]
    assert [each[-1] for each in groups] == ["layer", "layer (2)"]


def test_a_scope_with_parallel_parts_has_one_group() -> None:
    data = data_of(lambda x: layer(x) + layer(x + 1), X)
    groups = {path(data, place)[-1] for place, node in enumerate(data.nodes) if node[1] == "Tanh"}
    assert groups == {"layer"}


def test_circles_through_groups_are_found() -> None:
    """No path leads from one node of a to the other: only the groups make the circle."""
    groups = [Group("", -1, "scope")]
    found = Instances(groups)
    a, b = found.scope(0, "a", []), found.scope(0, "b", [])
    found.connect([[a, "n0"]], [b, "n1"])
    assert found.scope(0, "b", [[a, "n0"]]) == b
    again = found.scope(0, "a", [[b, "n2"]])
    assert (again, groups[again].name) == (3, "a (2)")


def test_bodies_are_groups_of_their_nodes() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda x: x[0, 0] < 9, lambda x: jnp.tanh(x) + x + 1, x)

    data = data_of(f, X)
    body = next(group for group in data.groups if group.kind == "body")
    assert data.nodes[body.owner][1] == "Loop" and body.name.startswith("body of ")
    assert paths(data)["Tanh"][-1] == body.name


def test_functions_are_groups() -> None:
    block = jax.jit(lambda x: jnp.tanh(x) @ x)
    data = data_of(lambda x: block(block(x)), X, functions="keep")
    assert [group.kind for group in data.groups].count("function") == 1


def test_many_inputs_are_one_group() -> None:
    data = data_of(lambda xs: sum(xs), [X] * 20)
    assert [group.name for group in data.groups if group.kind == "ports"] == ["20 inputs"]


def test_crowded_groups_have_parts() -> None:
    def f(x: jax.Array) -> jax.Array:
        for _ in range(200):
            x = jnp.sin(x)
        return x

    data = data_of(f, X)
    parts = [group.name for group in data.groups if group.kind == "part"]
    assert parts == [f"nodes {n} to {min(n + CHUNK - 1, 200)}" for n in range(1, 201, CHUNK)]


def test_times_and_errors() -> None:
    data = data_of(layer, X)
    name = next(str(node[2]) for node in data.nodes if node[1] == "Tanh")
    found = data.as_dict({name: (0.25, 3.0)}, {"result": 1e-3})
    nodes = {node[1]: node for node in found["nodes"]}  # type: ignore[attr-defined]
    assert nodes["Tanh"][10:] == [[0.25, 3.0], 1e-3]
    assert nodes["MatMul"][10:] == [None, None]


def test_a_model_of_others() -> None:
    """Names, types and metadata may be missing."""
    x = oir.Value(name="x")
    node = oir.node("Relu", [x])
    graph = oir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 18})
    data = graph_data(oir.Model(graph, ir_version=10))
    assert [node[1] for node in data.nodes] == ["input", "Relu", "output"]
    assert data.texts[data.nodes[1][4][0]] == "?"  # type: ignore[index]
