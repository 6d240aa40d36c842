"""Left singular vectors that fit the right ones, those of tiny singular values too.

With U and V of an algorithm, M = U^T A V is diagonal but for errors of the size of a rounding error
of A's norm. The product U V^T, the unitary factor of the polar decomposition, is exact only if M is
symmetric: an error of the antisymmetric part counts as its quotient with the sum of two singular
values, which may be tiny. Rotations of U by these quotients make M symmetric, and the singular
values and the residual stay as exact as they were.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MOST_STEPS = 12
"""One is usual. More are for singular values near the rounding errors of the largest one."""
_LARGEST_TURN = 0.03
"""After larger turns another step is needed: each squares the error."""
_LARGEST_NORM = 0.3
"""Of the turns of one step, so that the corrections suffice."""
_CORRECTIONS = {4: 1, 8: 2}
"""Steps that make U orthogonal again, by bytes of a number. Each squares the error."""


class _State(NamedTuple):
    u: jax.Array
    going: jax.Array
    steps: jax.Array


def fitted(u: jax.Array, image: jax.Array) -> jax.Array:
    """U^T after rotations that make U^T A V symmetric, with a diagonal that is not negative.

    Values below the rounding errors of the largest one do not count: their vectors stay.

    Args:
        u: The left singular vectors, as rows, real [..., n, n].
        image: A V, real [..., n, n].
    """
    limits = jnp.finfo(u.dtype)
    unit = np.eye(u.shape[-1], dtype=u.dtype)

    def step(state: _State) -> _State:
        u = state.u
        product = u @ image
        values = jnp.sum(product * unit, -1, keepdims=True)
        sign = jnp.where(values < 0, -1, 1).astype(u.dtype)
        u, product, values = sign * u, sign * product, abs(values)
        total = values + jnp.swapaxes(values, -1, -2)
        difference = jnp.swapaxes(product, -1, -2) - product
        counts = total > limits.eps * jnp.max(values, (-2, -1), keepdims=True)
        length = jnp.sqrt(total * total + difference * difference)
        turn = jnp.where(counts, difference / jnp.where(counts, length, 1), 0)
        norm = jnp.sum(turn * turn, (-2, -1), keepdims=True)
        turn *= jnp.minimum(1, _LARGEST_NORM * lax.rsqrt(norm + limits.tiny))
        u = u + turn @ (u + 0.5 * (turn @ u))
        for _ in range(_CORRECTIONS[u.dtype.itemsize]):
            u = u + 0.5 * ((unit - u @ jnp.swapaxes(u, -1, -2)) @ u)
        return _State(u, jnp.any(abs(turn) > _LARGEST_TURN), state.steps + 1)

    def going(state: _State) -> jax.Array:
        return state.going & (state.steps < MOST_STEPS)

    start = _State(u, jnp.array(True), np.int32(0))
    return lax.while_loop(going, step, start).u
