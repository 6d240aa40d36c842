"""Names and provenance: the model shows the user's own arguments, scopes and source lines."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx
from hlo2onnx.ir.names import Names
from hlo2onnx.ir.notes import split_scope


def test_the_other_outputs_of_a_node_may_be_taken() -> None:
    """As `loop:1` is, once another node makes what the second output of `loop` was."""
    names = Names()
    names.unique("loop:1")
    assert names.unique_node("loop", 2) == "loop_1"
    assert names.unique("loop_1:1") == "loop_1:1_1"


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


def test_unique_names() -> None:
    names = Names()
    assert [names.unique(name) for name in ["a", "a", "a_1", "a"]] == ["a", "a_1", "a_1_1", "a_2"]
