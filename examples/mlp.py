"""A reinforcement learning policy: observation normaliser and a small MLP, in Equinox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main


class Normalizer(eqx.Module):
    """Standardises observations with running statistics, and clips outliers."""

    mean: jax.Array
    std: jax.Array
    limit: float = eqx.field(static=True, default=5.0)

    def __call__(self, observation: jax.Array) -> jax.Array:
        scaled = (observation - self.mean) / (self.std + 1e-6)
        return jnp.clip(scaled, -self.limit, self.limit)


class Policy(eqx.Module):
    """Maps one observation to one action in [-1, 1]."""

    normalizer: Normalizer
    layers: list[eqx.nn.Linear]

    def __init__(self, normalizer: Normalizer, widths: tuple[int, ...], key: jax.Array) -> None:
        keys = jax.random.split(key, len(widths) - 1)
        self.normalizer = normalizer
        self.layers = [
            eqx.nn.Linear(inputs, outputs, dtype=jnp.float32, key=layer_key)
            for inputs, outputs, layer_key in zip(widths[:-1], widths[1:], keys, strict=True)
        ]

    def __call__(self, observation: jax.Array) -> jax.Array:
        x = self.normalizer(observation)
        for layer in self.layers[:-1]:
            x = jax.nn.swish(layer(x))
        return jnp.tanh(self.layers[-1](x))


def build(
    observations: int = 48,
    hidden: tuple[int, ...] = (256, 128),
    actions: int = 12,
    batch: int = 1,
    dtype: Any = jnp.float32,
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Return the policy, with its weights closed over, and a batch of observations."""
    rng = np.random.default_rng(0)
    mean = jnp.asarray(rng.normal(size=observations), jnp.float32)
    std = jnp.asarray(rng.uniform(0.5, 3.0, observations), jnp.float32)
    batch_of_observations = mean + std * rng.normal(size=(batch, observations))
    widths = (observations, *hidden, actions)
    policy = Policy(Normalizer(mean, std), widths, jax.random.key(0))
    # Cast at the end, so that the weights are the same in every precision.
    policy = jax.tree.map(lambda leaf: leaf.astype(dtype), policy)

    def act(observations: jax.Array) -> jax.Array:
        return jax.vmap(policy)(observations)

    return act, (batch_of_observations.astype(dtype),)


EXAMPLE = Example(
    name="mlp",
    summary="Equinox MLP policy with an observation normaliser",
    build=build,
    small={"hidden": (64, 32)},
    gradient=(0,),
    dynamic={0: "b, ..."},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))
