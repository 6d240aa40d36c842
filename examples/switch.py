"""One of five branches, chosen by an index at run time: a small bank of audio effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main


def unchanged(signal: jax.Array) -> jax.Array:
    return signal


def overdrive(signal: jax.Array) -> jax.Array:
    return jnp.tanh(4.0 * signal)


def echo(signal: jax.Array, delay: int = 16) -> jax.Array:
    return signal.at[delay:].add(0.5 * signal[:-delay])


def smooth(signal: jax.Array) -> jax.Array:
    return jnp.convolve(signal, jnp.full(5, 0.2, signal.dtype), mode="same")


def compress(signal: jax.Array) -> jax.Array:
    """Bring samples that are louder than the signal's loudness closer to it."""
    loudness = jnp.sqrt(jnp.mean(jnp.square(signal)))
    excess = jnp.maximum(jnp.abs(signal) - loudness, 0.0)
    return signal - 0.75 * jnp.sign(signal) * excess


def apply_effect(effect: jax.Array, signal: jax.Array) -> jax.Array:
    """Apply the effect of this number; lax.switch clamps the number."""
    branches = [unchanged, overdrive, echo, smooth, compress]
    return jax.lax.switch(effect, branches, signal)


def build(
    samples: int = 4096, effect: int = 4, dtype: Any = jnp.float32
) -> tuple[Callable[[jax.Array, jax.Array], jax.Array], tuple[jax.Array, jax.Array]]:
    """Return the bank of effects, the number of one, and a signal."""
    time = np.arange(samples) / 100
    signal = np.sin(2 * np.pi * time) * np.exp(-time / 10) + 0.1 * np.cos(50 * time)
    return apply_effect, (jnp.int32(effect), jnp.asarray(signal, dtype))


EXAMPLE = Example(
    name="switch",
    summary="lax.switch over five branches with an index known at run time",
    build=build,
    tolerance=3e-7,
    small={"samples": 64},
    gradient=(1,),
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))
