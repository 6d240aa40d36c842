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
