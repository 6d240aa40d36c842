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
    return hlo2onnx.translate(jax.jit(block), x, half="fast")


@pytest.mark.parametrize("dtype", HALF)
def test_fewer_roundings_are_right(dtype: Any) -> None:
    found = translated(dtype).verify()
    assert found, found


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
