"""Matrices with elements so large or small that their squares overflow or underflow."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dialect_handlers.common.linalg.blocks import Pair, divided


def scaled(a: jax.Array) -> Pair:
    """A scaled matrix with elements that can be squared, and the factor back to A.

    The factor is 1 for all but extreme matrices. A matrix with NaN or infinite elements is NaN
    throughout.

    Args:
        a: [m, n], not empty.

    Returns:
        The matrix, and a real scalar.
    """
    parts = jnp.maximum(abs(a.real), abs(a.imag)) if jnp.iscomplexobj(a) else abs(a)
    largest = jnp.max(parts)
    limits = jnp.finfo(a.dtype)
    smallest = np.sqrt(limits.tiny) / limits.eps
    extreme = (largest < smallest) | (largest > 1 / smallest)
    scale = jnp.where(extreme & (largest > 0), largest, 1)
    return jnp.where(jnp.isfinite(largest), divided(a, scale), np.nan), scale
