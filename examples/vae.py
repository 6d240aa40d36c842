"""A variational autoencoder of images; the graph draws the latent variables from a key."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

Dense = dict[str, jax.Array]


class Autoencoder(NamedTuple):
    """Weights of the encoder and the decoder."""

    encoder: list[Dense]
    decoder: list[Dense]


class Normal(NamedTuple):
    """Independent normal distributions."""

    mean: jax.Array
    log_variance: jax.Array

    def draw(self, key: jax.Array) -> jax.Array:
        """Draw from a standard normal, then scale and shift, so that gradients pass through."""
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        return self.mean + jnp.exp(self.log_variance / 2) * noise

    def divergence(self) -> jax.Array:
        """Kullback and Leibler's divergence from the standard normal, in nats ``[batch]``."""
        excess = jnp.exp(self.log_variance) - 1 - self.log_variance
        return jnp.sum(excess + self.mean**2, -1) / 2


def perceptron(layers: Sequence[Dense], x: jax.Array) -> jax.Array:
    """Apply dense layers with a swish between them."""
    for layer in layers[:-1]:
        x = jax.nn.swish(x @ layer["kernel"] + layer["bias"])
    return x @ layers[-1]["kernel"] + layers[-1]["bias"]


def encode(model: Autoencoder, images: jax.Array) -> Normal:
    """Return the distribution of the latent variables of images ``[batch, pixel]``."""
    mean, log_variance = jnp.split(perceptron(model.encoder, images), 2, axis=-1)
    return Normal(mean, log_variance)


def evidence(model: Autoencoder, key: jax.Array, images: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the reconstructed images, and the evidence lower bound of each in nats."""
    latent = encode(model, images)
    logits = perceptron(model.decoder, latent.draw(key))
    # Pixels are probabilities of black: log p = x log sigmoid(l) + (1 - x) log sigmoid(-l).
    fit = jnp.sum(images * logits - jax.nn.softplus(logits), -1)
    return jax.nn.sigmoid(logits), fit - latent.divergence()


def dense(rng: np.random.Generator, sizes: Sequence[int]) -> list[Dense]:
    """Layers of these sizes, with weights as after training."""
    return [
        {
            "kernel": jnp.asarray(rng.normal(0, fan_in**-0.5, (fan_in, fan_out)), jnp.float32),
            "bias": jnp.asarray(rng.normal(0, 0.1, fan_out), jnp.float32),
        }
        for fan_in, fan_out in itertools.pairwise(sizes)
    ]


def build(
    pixels: int = 784, width: int = 256, latent: int = 16, batch: int = 8
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the evidence, the autoencoder, a key and a batch of images."""
    rng = np.random.default_rng(0)
    model = Autoencoder(
        dense(rng, (pixels, width, width, 2 * latent)), dense(rng, (latent, width, width, pixels))
    )
    images = jnp.asarray(rng.uniform(0, 1, (batch, pixels)), jnp.float32)
    return evidence, (model, jax.random.PRNGKey(0), images)


EXAMPLE = Example(
    name="vae",
    summary="Variational autoencoder: latent variables drawn in the graph, evidence lower bound",
    build=build,
    small={"pixels": 20, "width": 12, "latent": 3, "batch": 4},
    dynamic={2: "b, ..."},
    gradient=(0,),
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))
