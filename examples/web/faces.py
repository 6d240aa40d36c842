"""Faces that a variational autoencoder makes up; the graph draws its latent variables."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from life import BACKGROUND, pixels
from vae import Autoencoder, dense, evidence, perceptron

SIZE = 28
"""Pixels along a side of a face."""
ROWS = 6
"""Faces along a side of the picture."""
LATENT, WIDTH, BATCH, STEPS = 8, 160, 32, 6000


def paint(decoder: Any, seed: jax.Array, blend: jax.Array) -> jax.Array:
    """Return a picture of ``ROWS * ROWS`` faces, ``[row, column]``.

    ``blend`` goes from 0, the faces of this seed, to 1, those of the next one.
    """
    shape = (ROWS * ROWS, LATENT)
    here = jax.random.normal(jax.random.key(seed), shape)
    there = jax.random.normal(jax.random.key(seed + 1), shape)
    # The squares of sine and cosine add up to 1, so that this is a standard normal, too.
    latent = jnp.cos(blend * math.pi / 2) * here + jnp.sin(blend * math.pi / 2) * there
    faces = jax.nn.sigmoid(perceptron(decoder, latent))
    tiles = faces.reshape(ROWS, ROWS, SIZE, SIZE, 3).transpose(4, 0, 2, 1, 3)
    return pixels(tiles.reshape(3, ROWS * SIZE, ROWS * SIZE))


# -- training -------------------------------------------------------------------------------------


def drawn(key: jax.Array) -> jax.Array:
    """A face to learn from, ``[SIZE * SIZE * 3]``, with a random colour and mood."""
    hue, tilt, smile, mouth, lips, eyes, gap = jax.random.uniform(key, 7, minval=-1)
    y, x = (jnp.mgrid[:SIZE, :SIZE] + 0.5) / SIZE * 2 - 1
    tilt = 0.2 * tilt
    x, y = jnp.cos(tilt) * x - jnp.sin(tilt) * y, jnp.sin(tilt) * x + jnp.cos(tilt) * y

    def inside(distance: jax.Array) -> jax.Array:
        """1 where a signed distance is below 0, with soft borders of a pixel."""
        return jax.nn.sigmoid(-distance * SIZE)[..., None]

    eye_x = (jnp.abs(x) - 0.3 - 0.05 * gap) / 0.11
    eye = inside((jnp.sqrt(eye_x**2 + ((y + 0.18) / (0.15 + 0.05 * eyes)) ** 2) - 1) * 0.1)
    along = x / (0.46 + 0.08 * mouth)
    middle = 0.33 + 0.25 * smile * (0.6 - along**2)
    thick = (0.11 + 0.05 * lips) * jnp.sqrt(jnp.maximum(1 - along**2, 0.02))
    lip = inside(jnp.maximum(jnp.abs(y - middle) - thick, (jnp.abs(along) - 1) * 0.4))
    skin = 0.62 + 0.36 * jnp.cos(math.pi * hue + jnp.array([0.0, -2.1, 2.1]))
    light = 1.05 - 0.25 * (y + 0.3 * x)[..., None]
    image = BACKGROUND + inside(jnp.sqrt(x**2 + y**2) - 0.86) * (skin * light - BACKGROUND)
    image = image + eye * (0.1 - image) + lip * (jnp.array([0.42, 0.08, 0.12]) - image)
    return jnp.clip(image, 0, 1).reshape(-1)


def train(steps: int = STEPS) -> Any:
    """Return the decoder of an autoencoder of faces, trained for some steps."""
    rng = np.random.default_rng(0)
    pixel_count = SIZE * SIZE * 3
    model = Autoencoder(
        dense(rng, (pixel_count, WIDTH, WIDTH, 2 * LATENT)),
        dense(rng, (LATENT, WIDTH, WIDTH, pixel_count)),
    )
    # The weights of `dense` are those of a trained model; training starts from smaller ones.
    model = jax.tree.map(lambda weight: 0.3 * weight, model)
    optimizer = optax.adam(optax.cosine_decay_schedule(3e-3, steps))

    def update(carry: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], None]:
        model, state = carry
        draw, noise = jax.random.split(key)
        images = jax.vmap(drawn)(jax.random.split(draw, BATCH))
        slope = jax.grad(lambda model: -jnp.mean(evidence(model, noise, images)[1]))(model)
        changes, state = optimizer.update(slope, state)
        return (optax.apply_updates(model, changes), state), None

    keys = jax.random.split(jax.random.key(0), steps)
    (model, _), _ = jax.jit(jax.lax.scan, static_argnums=0)(
        update, (model, optimizer.init(model)), keys
    )
    return model.decoder


def arguments(decoder: Any) -> tuple[Any, jax.Array, jax.Array]:
    """The weights, the first seed, and no blend."""
    return decoder, jnp.uint32(0), jnp.float32(0)
