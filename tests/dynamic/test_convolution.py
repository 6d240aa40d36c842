"""Convolutions and resizing with symbolic batch, height and width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.image
import jax.numpy as jnp
import numpy as np
import pytest
from every_size import every_size
from jax import lax

LAYOUT = ("NHWC", "HWIO", "NHWC")
KERNEL = np.random.default_rng(0).standard_normal((3, 3, 3, 4)).astype(np.float32)


def conv(
    x: jax.Array, kernel: Any = KERNEL, strides: tuple[int, int] = (1, 1), padding: Any = "SAME",
    **keywords: Any,
) -> jax.Array:  # fmt: skip
    kernel = jnp.asarray(kernel).astype(x.dtype)
    return lax.conv_general_dilated(
        x, kernel, strides, padding, dimension_numbers=LAYOUT, **keywords
    )


IMAGES: dict[str, Callable[[jax.Array], Any]] = {
    "same": conv,
    "strided": lambda x: conv(x, strides=(2, 2)),
    "valid, dilated": lambda x: conv(x, KERNEL[:2, :2], padding="VALID", rhs_dilation=(2, 2)),
    "depthwise": lambda x: conv(x, KERNEL[:, :, :1, :3], feature_group_count=3),
    "transposed": lambda x: lax.conv_transpose(
        x, KERNEL[:2, :2], (2, 2), "SAME", dimension_numbers=LAYOUT
    ),
    "integers": lambda x: conv((4 * x).astype(jnp.int32), (4 * KERNEL).astype(np.int32)),
    "twice the size": lambda x: jax.image.resize(
        x, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], 3), "bilinear"
    ),
    "nearest": lambda x: jax.image.resize(
        x, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], 3), "nearest"
    ),
    "half the size": lambda x: jax.image.resize(
        x, (x.shape[0], x.shape[1] // 2, x.shape[2] // 2, 3), "bilinear"
    ),
    "to 8 by 8": lambda x: jax.image.resize(x, (x.shape[0], 8, 8, 3), "bilinear"),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", IMAGES)
def test_images_of_any_size(name: str) -> None:
    every_size(IMAGES[name], "b, h, w, 3", sizes=(3, 7))


def test_f64() -> None:
    """The runtime has no kernel: it is a product of matrices."""
    with jax.enable_x64(True):
        every_size(conv, "float64[b, 6, 6, 3]", sizes=(1, 3))
        every_size(lambda x: conv(x, strides=(2, 2)), "float64[b, h, w, 3]", sizes=(3, 6))


def test_gradients() -> None:
    loss = lambda kernel, x: (conv(x, kernel) ** 2).mean()  # noqa: E731
    every_size(lambda x: jax.grad(loss, (0, 1))(jnp.asarray(KERNEL), x), "b, 6, 6, 3", sizes=(1, 3))


def conv_of(**keywords: Any) -> Callable[[jax.Array, jax.Array], jax.Array]:
    return lambda x, kernel: conv(x, kernel, **{"padding": "VALID", **keywords})


OF_KERNELS: dict[str, tuple[Callable[[jax.Array, jax.Array], Any], str, str]] = {
    "features": (conv_of(), "b, 6, 6, 3", "2, 3, 3, n"),
    "features in f64": (conv_of(), "float64[b, 6, 6, 3]", "float64[2, 3, 3, n]"),
    "features of integers": (conv_of(), "int32[b, 6, 6, 3]", "int32[2, 3, 3, n]"),
    "features, transposed": (
        conv_of(lhs_dilation=(2, 1), padding=[(1, 1), (0, 2)]),
        "float64[b, 4, 4, 3]",
        "float64[2, 3, 3, n]",
    ),
    "features in groups": (
        conv_of(feature_group_count=3),
        "float64[b, 6, 6, 3]",
        "float64[2, 3, 1, 3*n]",
    ),
    "features in groups, transposed": (
        conv_of(feature_group_count=3, lhs_dilation=(2, 1), padding=[(1, 0), (0, 0)]),
        "b, 6, 6, 3",
        "2, 3, 1, 3*n",
    ),
    "channels": (conv_of(), "float64[b, 6, 6, n]", "float64[2, 3, n, 4]"),
    "height": (conv_of(), "b, h + 4, 9, 3", "h, 3, 3, 4"),
    "height, padded alike": (conv_of(padding="SAME"), "b, 6, 9, 3", "h, 3, 3, 4"),
    "height, strided": (
        conv_of(strides=(2, 1), rhs_dilation=(2, 1)),
        "b, 4*h, 9, 3",
        "h, 3, 3, 4",
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", OF_KERNELS)
def test_kernels_of_any_size(name: str) -> None:
    function, *specs = OF_KERNELS[name]
    with jax.enable_x64(True):
        every_size(function, *specs, sizes=(1, 2, 5))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_kernels_that_are_longer_than_the_image(dtype: str) -> None:
    """Nothing is left."""
    with jax.enable_x64(True):
        program = every_size(conv_of(), f"{dtype}[b, 4, 6, 3]", f"{dtype}[5, 3, 3, n]")
    shape = program.model.graph.outputs[0].shape
    assert shape is not None
    assert shape[1:3] == (0, 4)


def test_gradients_of_kernels_of_images_of_any_size() -> None:
    """The kernel of that convolution is an image."""
    loss = lambda kernel, x: (conv(x, kernel, padding="VALID") ** 2).mean()  # noqa: E731
    gradient = lambda x: jax.grad(loss)(jnp.asarray(KERNEL), x)  # noqa: E731
    every_size(gradient, "b, h + 2, w + 2, 3", sizes=(1, 2, 5))
