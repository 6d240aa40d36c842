"""`verify()` of programs in half precision whose models leave out roundings."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import onnx_ir as oir
import pytest

import hlo2onnx
from hlo2onnx.verify.reference import Reference

HALF = [pytest.param(np.float16, marks=pytest.mark.wide), ml_dtypes.bfloat16]
WEIGHTS = np.random.default_rng(0).normal(size=(32, 32)) / 5


def block(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Attention and an MLP; the numbers and the largest of each row."""
    w = jnp.asarray(WEIGHTS, x.dtype)
    x = x + jax.nn.softmax(x @ w @ x.T / 8) @ x
    y = jax.nn.gelu(x @ w) @ w
    return y, jnp.argmax(y, -1)


def translated(dtype: Any) -> hlo2onnx.OnnxProgram:
    x = np.random.default_rng(1).normal(size=(8, 32)).astype(dtype)
    # Faults are planted in its Softmax.
    return hlo2onnx.translate(jax.jit(block), x, half="fast", without="attention")


@pytest.mark.parametrize("dtype", HALF)
def test_fewer_roundings_are_right(dtype: Any) -> None:
    found = translated(dtype).verify()
    assert found, found


def test_two_layers_are_judged_by_the_evaluation_in_f64() -> None:
    """The weights are rounded in it, and the model is nearer to it than XLA is."""
    one, two = (jnp.asarray(x, jnp.float32) for x in (WEIGHTS, WEIGHTS.T))

    def layers(x: jax.Array) -> jax.Array:
        y = jnp.tanh(x.astype(jnp.bfloat16) @ one.astype(jnp.bfloat16))
        return (y @ two.astype(jnp.bfloat16)).astype(jnp.float32)

    x = np.random.default_rng(1).normal(size=(64, 32)).astype(ml_dtypes.bfloat16)
    x = x.astype(np.float32)
    program = hlo2onnx.translate(layers, x, half="fast")
    reference = Reference(program._source, half="fast")
    (exact,) = reference.at([x]).in_f64([x], reference([x]))
    first, second = (np.asarray(w, ml_dtypes.bfloat16).astype(np.float64) for w in (one, two))
    expected = np.tanh(x.astype(np.float64) @ first) @ second
    assert exact is not None
    np.testing.assert_allclose(exact, expected, atol=1e-12)
    found = program.verify(x)
    assert found.ok, found
    if jax.__version_info__ >= (0, 12):  # in 0.10 XLA's results move as much as they differ
        assert not any(item.remark for item in found.optimized), found


def _other_axis(model: onnx.ModelProto) -> None:
    (softmax,) = (node for node in model.graph.node if node.op_type == "Softmax")
    softmax.attribute[0].i = 0


def _other_gelu(model: onnx.ModelProto) -> None:
    (gelu,) = (node for node in model.graph.node if node.op_type == "Gelu")
    gelu.op_type = "Relu"
    del gelu.attribute[:]


def _other_weights(model: onnx.ModelProto) -> None:
    (weights,) = (item for item in model.graph.initializer if list(item.dims) == [32, 32])
    array = onnx.numpy_helper.to_array(weights)
    weights.CopyFrom(onnx.numpy_helper.from_array((array * 1.1).astype(array.dtype), weights.name))


@pytest.mark.wide
@pytest.mark.parametrize("plant", [_other_axis, _other_gelu, _other_weights])
@pytest.mark.parametrize("dtype", HALF)
def test_faults_are_found(dtype: Any, plant: Any) -> None:
    """What bf16 rounds away is not taken for a fault, and a fault not for rounding."""
    program = translated(dtype)
    model = program.model_proto
    plant(model)
    program.model = oir.from_proto(model)
    assert not program.verify(samples=4)
