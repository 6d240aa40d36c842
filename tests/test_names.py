"""Names and provenance: the model shows the user's own arguments, scopes and source lines."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx
from hlo2onnx.frontend.signature import path_name
from hlo2onnx.ir.names import Names
from hlo2onnx.ir.notes import split_scope


def test_inputs_and_outputs_are_named_by_path() -> None:
    def model(params, x, *, scale):  # type: ignore[no-untyped-def]
        hidden = jnp.tanh(x @ params["Dense_0"]["kernel"]) * scale
        return {"logits": hidden, "aux": (hidden + 1, x)}

    params = {"Dense_0": {"kernel": np.ones((3, 4), np.float32)}}
    x = np.ones((2, 3), np.float32)
    lowered = jax.jit(model).lower(params, x, scale=np.float32(2))
    program = hlo2onnx.translate(lowered)
    assert program.input_names == ["params/Dense_0/kernel", "x", "scale"]
    assert program.output_names == ["aux/0", "aux/1", "logits"]
    assert program.verify(params, x, scale=np.float32(2)).ok


def test_the_other_outputs_of_a_node_may_be_taken() -> None:
    """As `loop:1` is, once another node makes what the second output of `loop` was."""
    names = Names()
    names.unique("loop:1")
    assert names.unique_node("loop", 2) == "loop_1"
    assert names.unique("loop_1:1") == "loop_1:1_1"


def test_a_single_result() -> None:
    program = hlo2onnx.translate(jax.jit(lambda x: x + 1).lower(np.ones(3, np.float32)))
    assert program.output_names == ["result"]


def test_nodes_carry_scope_and_source() -> None:
    def model(x):  # type: ignore[no-untyped-def]
        with jax.named_scope("encoder"):
            return jnp.tanh(x) + 1

    program = hlo2onnx.translate(jax.jit(model).lower(np.ones(3, np.float32)))
    nodes = {node.op_type: node for node in program.model.graph}
    assert nodes["Tanh"].name == "encoder/tanh"
    source = nodes["Tanh"].metadata_props["jax.source"]
    assert source.startswith("tests/test_names.py:"), source
    for node in nodes.values():
        assert not any(value.startswith("/") for value in node.metadata_props.values())


def test_scope_splits_outside_parentheses() -> None:
    assert split_scope("jit(f)/vmap(jvp(a/b))/Dense_0/add") == (
        "jit(f)",
        "vmap(jvp(a/b))",
        "Dense_0",
        "add",
    )


def test_path_names() -> None:
    assert path_name("params['a'][0].w") == "params/a/0/w"
    assert path_name("result['logits']") == "result/logits"
    assert path_name("x[<flat index 1>]") == "x/1"
    assert path_name("x") == "x"
    assert path_name("d['a b/c']") == "d/a b/c"


def test_unique_names() -> None:
    names = Names()
    assert [names.unique(name) for name in ["a", "a", "a_1", "a"]] == ["a", "a_1", "a_1_1", "a_2"]
