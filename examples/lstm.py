"""An LSTM in flax that labels every step of a sequence; its parameters are an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main, trained


class Tagger(nn.Module):
    """Two layers of LSTM and scores for the labels of each step."""

    width: int
    labels: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(2):
            x = nn.RNN(nn.OptimizedLSTMCell(self.width))(x)
        return nn.Dense(self.labels)(x)


def build(
    width: int = 128,
    features: int = 64,
    labels: int = 16,
    steps: int = 100,
    batch: int = 4,
    dtype: Any = jnp.float32,
) -> tuple[Callable[[Any, jax.Array], jax.Array], tuple[Any, jax.Array]]:
    """Return the model, its parameters and a batch of sequences."""
    model = Tagger(width, labels)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(batch, steps, features)), dtype)
    variables = trained(jax.eval_shape(model.init, jax.random.key(0), x))
    return model.apply, (jax.tree.map(lambda leaf: leaf.astype(dtype), variables), x)


EXAMPLE = Example(
    name="lstm",
    summary="Flax LSTM over lax.scan that labels every step of a sequence",
    build=build,
    tolerance=1e-6,
    small={"width": 16, "features": 8, "labels": 5, "steps": 7, "batch": 3},
    gradient=(0, 1),
    dynamic={1: "b, t, ..."},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))
