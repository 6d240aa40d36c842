"""A small convolutional classifier for 28x28 images in Flax Linen; parameters are an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main, trained


class CNN(nn.Module):
    """Two convolutions with batch norm, then max pooling, average pooling and two dense layers."""

    features: int = 32
    classes: int = 10
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        types = {"dtype": self.dtype, "param_dtype": self.dtype}
        x = nn.Conv(self.features, (3, 3), **types)(images)
        x = nn.BatchNorm(use_running_average=not train, **types)(x)
        x = nn.relu(x)
        # Overlapping windows with padding: the border must hold -inf, not 0.
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
        x = nn.Conv(2 * self.features, (3, 3), **types)(x)
        x = nn.BatchNorm(use_running_average=not train, **types)(x)
        x = nn.relu(x)
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.relu(nn.Dense(4 * self.features, **types)(x))
        return nn.Dense(self.classes, **types)(x)


def build(
    features: int = 32, batch: int = 2, dtype: Any = jnp.float32
) -> tuple[Callable[[Any, jax.Array], jax.Array], tuple[Any, jax.Array]]:
    """Return the inference function of the model, its variables and a batch of images."""
    model = CNN(features, dtype=dtype)
    images = jnp.asarray(np.random.default_rng(0).uniform(size=(batch, 28, 28, 1)), dtype)
    variables = trained(jax.eval_shape(model.init, jax.random.key(0), images))

    def predict(variables: Any, images: jax.Array) -> jax.Array:
        return jax.nn.log_softmax(model.apply(variables, images))

    return predict, (variables, images)


EXAMPLE = Example(
    name="cnn",
    summary="Flax Linen CNN with batch norm and pooling, parameters passed as an argument",
    build=build,
    small={"features": 8},
    dynamic={1: "b, ..."},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))
