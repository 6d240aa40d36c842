"""Random arguments, the same in every run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def normal(*shape: int, seed: int = 0) -> jax.Array:
    """Standard normal numbers, f32."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def tokens(*shape: int, bound: int) -> jax.Array:
    """Integers from 1 to below the bound, i32."""
    return jnp.asarray(np.random.default_rng(0).integers(1, bound, shape), jnp.int32)
