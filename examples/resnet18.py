"""ResNet-18 in inference mode, in Flax Linen, with its weights closed over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main, trained


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with a residual connection."""

    channels: int
    strides: tuple[int, int]
    conv: Callable[..., nn.Conv]
    norm: Callable[..., nn.BatchNorm]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.conv(self.channels, (3, 3), self.strides, padding=1)(x)
        y = nn.relu(self.norm()(y))
        y = self.conv(self.channels, (3, 3), padding=1)(y)
        y = self.norm()(y)
        if x.shape != y.shape:
            x = self.conv(self.channels, (1, 1), self.strides, name="conv_skip")(x)
            x = self.norm(name="norm_skip")(x)
        return nn.relu(x + y)


class ResNet(nn.Module):
    """A ResNet of basic blocks; two blocks in each of four stages are a ResNet-18."""

    stages: tuple[int, ...] = (2, 2, 2, 2)
    channels: int = 64
    classes: int = 1000
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        types = {"dtype": self.dtype, "param_dtype": self.dtype}
        conv = partial(nn.Conv, use_bias=False, **types)
        norm = partial(nn.BatchNorm, use_running_average=not train, epsilon=1e-5, **types)
        x = conv(self.channels, (7, 7), (2, 2), padding=3, name="conv_stem")(images)
        x = nn.relu(norm(name="norm_stem")(x))
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
        for stage, blocks in enumerate(self.stages):
            for block in range(blocks):
                strides = (2, 2) if stage > 0 and block == 0 else (1, 1)
                x = ResidualBlock(self.channels * 2**stage, strides, conv, norm)(x)
        x = jnp.mean(x, axis=(1, 2))
        return nn.Dense(self.classes, name="head", **types)(x)


def build(
    size: int = 96,
    channels: int = 64,
    classes: int = 1000,
    batch: int = 1,
    dtype: Any = jnp.float32,
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Return the classifier and a batch of images; ``size=224`` is the usual resolution."""
    model = ResNet(channels=channels, classes=classes, dtype=dtype)
    images = jnp.asarray(np.random.default_rng(0).normal(size=(batch, size, size, 3)), dtype)
    variables = trained(jax.eval_shape(model.init, jax.random.key(0), images))

    def predict(images: jax.Array) -> jax.Array:
        return model.apply(variables, images)

    return predict, (images,)


EXAMPLE = Example(
    name="resnet18",
    summary="Flax Linen ResNet-18, weights closed over",
    build=build,
    small={"size": 32, "channels": 4, "classes": 10},
    dynamic={0: "b, 4*h, 4*w, ..."},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))
