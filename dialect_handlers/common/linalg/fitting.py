"""Left singular vectors that fit the right ones, those of tiny singular values too.

With U and V of an algorithm, M = U^H A V is diagonal but for errors of the size of a rounding error
of A's norm. The product U V^H, the unitary factor of the polar decomposition, is exact only if M is
Hermitian: an error of the other part counts as its quotient with the sum of two singular values,
which may be tiny. Rotations of U by these quotients make M Hermitian, and the singular values and
the residual stay as exact as they were.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Pair, adjoint

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
    """U^H after rotations that make U^H A V Hermitian, with a diagonal that is not negative. If U
    has fewer columns than rows, it also rotates towards what A V has outside of its columns.

    Values below the rounding errors of the largest one do not count: their vectors stay.

    Args:
        u: The left singular vectors, as rows, real or complex [..., n, m], n <= m.
        image: A V, of the same type [..., m, n].
    """
    limits = jnp.finfo(u.dtype)
    n, m = u.shape[-2:]
    unit = np.eye(n, dtype=u.dtype)

    def turns(u: jax.Array) -> Pair:
        """U with other signs, and the turns [..., n, n], with those to the outside [..., n, m]."""
        product = u @ image
        values = jnp.real(jnp.sum(product * unit, -1, keepdims=True))
        sign = jnp.where(values < 0, -1, 1).astype(values.dtype)
        u, product, values = sign * u, sign * product, abs(values)
        total = values + jnp.swapaxes(values, -1, -2)
        change = adjoint(product) - product
        if n < m:
            outside = adjoint(image) - adjoint(product) @ u
            change = jnp.concatenate([change, outside], -1)
            total = jnp.concatenate([total, jnp.broadcast_to(values, outside.shape)], -1)
        counts = total > limits.eps * jnp.max(values, (-2, -1), keepdims=True)
        length = jnp.where(counts, jnp.maximum(total, abs(change)), 1)
        return u, jnp.where(counts, change, 0) / length

    def step(state: _State) -> _State:
        u, turn = turns(state.u)
        norm = jnp.sum(_square(turn), (-2, -1), keepdims=True)
        turn *= jnp.minimum(1, _LARGEST_NORM * lax.rsqrt(norm + limits.tiny))
        inside = turn[..., :n]
        turned = u + inside @ (u + 0.5 * (inside @ u))
        u = turned + turn[..., n:] if n < m else turned
        for _ in range(_CORRECTIONS[limits.bits // 8]):
            u = u + 0.5 * ((unit - u @ adjoint(u)) @ u)
        return _State(u, jnp.any(abs(turn) > _LARGEST_TURN), state.steps + 1)

    def going(state: _State) -> jax.Array:
        return state.going & (state.steps < MOST_STEPS)

    start = _State(u, jnp.array(True), np.int32(0))
    return lax.while_loop(going, step, start).u


def _square(x: jax.Array) -> jax.Array:
    """|x|^2."""
    squares: jax.Array = jnp.real(x * x.conj()) if jnp.iscomplexobj(x) else x * x
    return squares
