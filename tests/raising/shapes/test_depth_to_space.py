"""DepthToSpace and SpaceToDepth: the orders of blocks that the operators have, and others."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx

X = np.random.default_rng(0).normal(size=(2, 16, 6, 4)).astype(np.float32)
"""With channels second."""

View = Callable[[jax.Array], jax.Array]


def taken_apart(view: tuple[int, ...], perm: tuple[int, ...], shape: tuple[int, ...]) -> View:
    return lambda x: x.reshape(view).transpose(perm).reshape(shape)


BLOCKS: dict[str, tuple[str, View]] = {
    "DCR": (
        "DepthToSpace",
        taken_apart((2, 2, 2, 4, 6, 4), (0, 3, 4, 1, 5, 2), (2, 4, 12, 8)),
    ),
    "CRD": (
        "DepthToSpace",
        taken_apart((2, 1, 4, 4, 6, 4), (0, 1, 4, 2, 5, 3), (2, 1, 24, 16)),
    ),
    "to depth": (
        "SpaceToDepth",
        taken_apart((2, 16, 3, 2, 2, 2), (0, 3, 5, 1, 2, 4), (2, 64, 3, 2)),
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
def test_blocks(name: str, dtype: str) -> None:
    op_type, function = BLOCKS[name]
    x = (X * 50).astype(dtype)
    with jax.enable_x64(True):
        program = hlo2onnx.translate(jax.jit(function).lower(x))
    assert [node.op_type for node in program.model_proto.graph.node] == [op_type]
    np.testing.assert_array_equal(program(x), function(x))


def shuffled(x: jax.Array) -> jax.Array:
    """Channels last."""
    n, h, w, c = x.shape
    blocks = x.reshape(n, h, w, 2, 2, c // 4).transpose(0, 1, 3, 2, 4, 5)
    return blocks.reshape(n, 2 * h, 2 * w, c // 4)


@pytest.mark.parametrize("sizes", ["2, 6, 4, 3", "b, h, w, 3"])
def test_between_convolutions(sizes: str) -> None:
    """With channels last no Transpose is left between the layers, of free sizes neither."""
    weights = [jnp.ones((3, 3, 3, 16)), jnp.ones((3, 3, 4, 5))]

    def function(x: jax.Array) -> jax.Array:
        form = ("NHWC", "HWIO", "NHWC")
        for layer, kernel in enumerate(weights):
            x = shuffled(x) if layer else x
            x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=form)
        return x

    program = hlo2onnx.translate(function, sizes)
    found = [node.op_type for node in program.model_proto.graph.node]
    assert found == ["Transpose", "Conv", "DepthToSpace", "Conv", "Transpose"]
    assert program.verify(np.ones((2, 6, 4, 3), np.float32)).ok
