"""A U-Net with group norm in Flax Linen, which doubles the resolution in two ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main, trained


class ConvBlock(nn.Module):
    """Two convolutions, each followed by a group norm and a swish."""

    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        types = {"dtype": self.dtype, "param_dtype": self.dtype}
        for _ in range(2):
            x = nn.Conv(self.features, (3, 3), use_bias=False, **types)(x)
            x = nn.swish(nn.GroupNorm(num_groups=4, **types)(x))
        return x


class UNet(nn.Module):
    """Halves the resolution twice, doubles it twice, and joins equal resolutions."""

    features: int = 16
    outputs: int = 1
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        types = {"dtype": self.dtype, "param_dtype": self.dtype}
        full = ConvBlock(self.features, self.dtype)(images)
        half = nn.max_pool(full, (2, 2), strides=(2, 2))
        half = ConvBlock(2 * self.features, self.dtype)(half)
        # A strided convolution, as an alternative to pooling.
        quarter = nn.Conv(4 * self.features, (3, 3), strides=(2, 2), **types)(half)
        quarter = ConvBlock(4 * self.features, self.dtype)(quarter)

        # From a quarter to a half with interpolation. The shapes are plain integers while
        # tracing, so the interpolation weights become constants.
        batch, height, width, _ = half.shape
        up = jax.image.resize(quarter, (batch, height, width, quarter.shape[-1]), "bilinear")
        x = jnp.concatenate([half, up], axis=-1)
        x = ConvBlock(2 * self.features, self.dtype)(x)

        # From a half to full resolution with a transposed convolution.
        up = nn.ConvTranspose(self.features, (4, 4), strides=(2, 2), **types)(x)
        x = jnp.concatenate([full, up], axis=-1)
        x = ConvBlock(self.features, self.dtype)(x)
        return nn.Conv(self.outputs, (1, 1), name="head", **types)(x)


def build(
    size: int = 32, features: int = 16, batch: int = 1, dtype: Any = jnp.float32
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Return the model, with its weights closed over, and a batch of images."""
    model = UNet(features, dtype=dtype)
    images = jnp.asarray(np.random.default_rng(0).normal(size=(batch, size, size, 3)), dtype)
    variables = trained(jax.eval_shape(model.init, jax.random.key(0), images))

    def segment(images: jax.Array) -> jax.Array:
        return jax.nn.sigmoid(model.apply(variables, images))

    return segment, (images,)


EXAMPLE = Example(
    name="unet",
    summary="Flax Linen U-Net with group norm, bilinear resize and transposed convolution",
    build=build,
    small={"size": 16, "features": 4},
    dynamic={0: "b, ..."},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))
