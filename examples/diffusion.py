"""A diffusion sampler (DDPM): images from noise that the graph draws from a key."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main, trained


class Schedule(NamedTuple):
    """The part of an image that remains after each step of adding noise, first step first.

    Attributes:
        step: Its number.
        kept: The part of the variance that the step leaves.
        signal: The part that all steps up to it leave.
    """

    step: jax.Array
    kept: jax.Array
    signal: jax.Array

    @classmethod
    def cosine(cls, steps: int, offset: float = 0.008) -> Schedule:
        """Nichol and Dhariwal's schedule, which adds little noise in the first steps."""
        time = (np.arange(steps + 1) / steps + offset) / (1 + offset)
        signal = np.cos(time * math.pi / 2) ** 2
        kept = np.clip(signal[1:] / signal[:-1], 1e-3, None)
        columns = np.arange(steps), kept, np.cumprod(kept)
        return cls(*(jnp.asarray(column, jnp.float32) for column in columns))


class Block(nn.Module):
    """A residual pair of convolutions, scaled and shifted by an embedding of the step."""

    features: int

    @nn.compact
    def __call__(self, x: jax.Array, condition: jax.Array) -> jax.Array:
        scale, shift = jnp.split(nn.Dense(2 * self.features)(condition), 2, axis=-1)
        y = nn.Conv(self.features, (3, 3))(nn.swish(nn.GroupNorm(num_groups=4)(x)))
        y = nn.GroupNorm(num_groups=4)(y) * (1 + scale) + shift
        return x + nn.Conv(self.features, (3, 3))(nn.swish(y))


class Denoiser(nn.Module):
    """Predicts the noise in images ``[batch, height, width, channel]`` of one step."""

    features: int
    blocks: int

    @nn.compact
    def __call__(self, images: jax.Array, step: jax.Array) -> jax.Array:
        frequencies = jnp.exp(-math.log(1e4) * jnp.arange(self.features) / self.features)
        angles = step * frequencies
        condition = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)])
        condition = nn.swish(nn.Dense(self.features)(condition))
        x = nn.Conv(self.features, (3, 3))(images)
        for _ in range(self.blocks):
            x = Block(self.features)(x, condition)
        return nn.Conv(images.shape[-1], (3, 3))(nn.swish(x))


def build(
    steps: int = 40, size: int = 16, features: int = 16, blocks: int = 2, batch: int = 2
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the sampler, the weights of its network, a key, and images to be painted over."""
    model, schedule = Denoiser(features, blocks), Schedule.cosine(steps)
    like = jnp.zeros((batch, size, size, 3), jnp.float32)
    weights = trained(jax.eval_shape(model.init, jax.random.key(0), like, schedule.step[0]))

    def sample(weights: Any, key: jax.Array, like: jax.Array) -> jax.Array:
        """Draw as many images as `like` has, going from the last step back to the first."""

        def denoise(
            carry: tuple[jax.Array, jax.Array], now: Schedule
        ) -> tuple[tuple[jax.Array, jax.Array], None]:
            key, images = carry
            key, here = jax.random.split(key)
            noise = model.apply(weights, images, now.step)
            # The image under this noise, clipped to the brightness of white.
            clean = (images - jnp.sqrt(1 - now.signal) * noise) * jax.lax.rsqrt(now.signal)
            clean = jnp.clip(clean, -1, 1)
            before = now.signal / now.kept
            left = (1 - before) / (1 - now.signal)
            mean = (
                jnp.sqrt(before) * (1 - now.kept) / (1 - now.signal) * clean
                + jnp.sqrt(now.kept) * left * images
            )
            # The image before the first step has no noise: the last draw is multiplied by 0.
            deviation = jnp.sqrt((1 - now.kept) * jnp.maximum(left, 0))
            return (key, mean + deviation * jax.random.normal(here, images.shape)), None

        key, start = jax.random.split(key)
        noise = jax.random.normal(start, like.shape)
        (_, images), _ = jax.lax.scan(denoise, (key, noise), schedule, reverse=True)
        return images

    return sample, (weights, jax.random.PRNGKey(0), like)


EXAMPLE = Example(
    name="diffusion",
    summary="Diffusion sampler in one loop, noise drawn in the graph, with a Flax Linen network",
    build=build,
    tolerance=1e-4,
    small={"steps": 4, "size": 6, "features": 8, "blocks": 1},
    dynamic={2: "b, ..."},
    gradient=(0,),
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))
