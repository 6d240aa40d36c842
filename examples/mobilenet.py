"""A MobileNetV2-like network of depthwise separable convolutions with swish, in Flax Linen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main, trained

# Expansion factor, output channels, stride of the first block and number of blocks of each stage.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 40, 2, 2), (6, 80, 2, 2), (6, 112, 1, 1))


class InvertedResidual(nn.Module):
    """Expand with a 1x1 convolution, filter each channel separately, then project back."""

    channels: int
    expansion: int
    stride: int
    conv: Callable[..., nn.Conv]
    norm: Callable[..., nn.BatchNorm]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        inputs = x.shape[-1]
        inner = inputs * self.expansion
        y = x
        if self.expansion != 1:
            y = self.conv(inner, (1, 1), name="expand")(y)
            y = nn.swish(self.norm()(y))
        strides = (self.stride, self.stride)
        y = self.conv(inner, (3, 3), strides, feature_group_count=inner, name="depthwise")(y)
        y = nn.swish(self.norm()(y))
        y = self.conv(self.channels, (1, 1), name="project")(y)
        y = self.norm()(y)
        return x + y if self.stride == 1 and inputs == self.channels else y


class MobileNet(nn.Module):
    """Stem, stages of inverted residual blocks and a classifier on the mean of all positions."""

    width: float = 1.0
    classes: int = 1000
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        types = {"dtype": self.dtype, "param_dtype": self.dtype}
        conv = partial(nn.Conv, use_bias=False, padding="SAME", **types)
        norm = partial(nn.BatchNorm, use_running_average=not train, epsilon=1e-3, **types)
        x = conv(round(32 * self.width), (3, 3), (2, 2), name="stem")(images)
        x = nn.swish(norm()(x))
        for expansion, channels, stride, blocks in STAGES:
            for block in range(blocks):
                x = InvertedResidual(
                    channels=round(channels * self.width),
                    expansion=expansion,
                    stride=stride if block == 0 else 1,
                    conv=conv,
                    norm=norm,
                )(x)
        x = conv(round(640 * self.width), (1, 1), name="top")(x)
        x = nn.swish(norm()(x))
        x = jnp.mean(x, axis=(1, 2))
        return nn.Dense(self.classes, name="head", **types)(x)


def build(
    size: int = 96,
    width: float = 1.0,
    classes: int = 1000,
    batch: int = 1,
    dtype: Any = jnp.float32,
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Return the classifier and a batch of images; ``size=224`` is the usual resolution."""
    model = MobileNet(width, classes, dtype)
    images = jnp.asarray(np.random.default_rng(0).normal(size=(batch, size, size, 3)), dtype)
    variables = trained(jax.eval_shape(model.init, jax.random.key(0), images))

    def predict(images: jax.Array) -> jax.Array:
        return model.apply(variables, images)

    return predict, (images,)


EXAMPLE = Example(
    name="mobilenet",
    summary="Flax Linen network of depthwise separable convolutions with swish",
    build=build,
    small={"size": 32, "width": 0.25, "classes": 10},
    dynamic={0: "b, ..."},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))
