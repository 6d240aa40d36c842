"""Singular values and singular vectors."""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg import real_condensed_forms, simultaneous
from dialect_handlers.common.linalg.blocks import Triple, adjoint, over_batch
from dialect_handlers.common.linalg.condensed_forms import Reflections, bidiagonalize
from dialect_handlers.common.linalg.divide_and_conquer import bidiagonal_svd
from dialect_handlers.common.linalg.fitting import fitted
from dialect_handlers.common.linalg.scaling import scaled
from dialect_handlers.common.linalg.selection_sort import Pass, selection_order

Driver = Literal["gesdd", "gesvd"]
"""LAPACK's function: divide and conquer, or QR iterations."""

_LEAST_OF_BATCH = 8
"""Rows of the matrices of a batch that are rotated. Products of many smaller ones are slow."""
_NOISE = 32
"""Rounding errors of the largest singular value, below which values are rotated once more."""
_CONQUERED_AT_ONCE = 25
"""The largest bidiagonal matrix that gesdd does not divide (SMLSIZ)."""


def svd(a: jax.Array, *, full_matrices: bool, driver: Driver = "gesdd") -> Triple:
    """A = U diag(s) V^H.

    Pairs of singular vectors are unique up to a factor of absolute value 1; for diagonal matrices
    they are LAPACK's.

    Args:
        a: [..., m, n], m and n >= 1.
        full_matrices: Whether U and V are square.
        driver: The LAPACK function that determines the vectors of diagonal matrices.

    Returns:
        U [..., m, k or m]; s [..., k], descending; V^H [..., k or n, n], with k = min(m, n). All
        are NaN if A holds NaN or infinities.
    """
    m, n = a.shape[-2:]
    convention = _Convention.of(driver, min(m, n))
    if m < n:
        mirrored = convention._replace(negative_left=~convention.negative_left)
        v, s, uh = _tall_svd(adjoint(a), full_matrices, mirrored)
        return adjoint(uh), s, adjoint(v)
    return _tall_svd(a, full_matrices, convention)


class _Convention(NamedTuple):
    """LAPACK's vectors of diagonal matrices.

    Attributes:
        passes: How it sorts the values.
        negative_left: bool[n], whether it is the left vector of a negative element that is
            negative, and not the right one.
    """

    passes: list[Pass]
    negative_left: np.ndarray

    @classmethod
    def of(cls, driver: Driver, n: int) -> _Convention:
        """The convention for n singular values."""
        last = np.arange(n) == n - 1
        by_qr = Pass(descending=True, from_end=True)
        if driver == "gesvd":
            return cls([by_qr], last & False)
        selected = Pass(descending=True)
        if n <= _CONQUERED_AT_ONCE:
            return cls([by_qr, Pass(descending=False), selected], last & (n == 1))
        return cls([selected], last)


def singular_values(a: jax.Array) -> jax.Array:
    """The s of `svd` alone."""
    a = a if a.shape[-2] >= a.shape[-1] else adjoint(a)

    def by_division() -> jax.Array:
        return over_batch(_singular_values, 2, a)

    if not _is_rotated(a):
        return by_division()
    moderate, scale = over_batch(scaled, 2, a)
    found = simultaneous.singular_values_and_vectors(moderate)

    def by_rotations() -> jax.Array:
        return -jnp.sort(-abs(found.values)) * scale[..., None]

    return lax.cond(found.good, by_rotations, by_division)


def _singular_values(a: jax.Array) -> jax.Array:
    a, scale = scaled(a)
    d, e, _, _ = _bidiagonalized(a)
    _, v = bidiagonal_svd(d, e, left=False)
    product = _image(d, e, v)
    return -jnp.sort(-jnp.sqrt(jnp.sum(product * product, 1))) * scale


def _image(d: jax.Array, e: jax.Array, v: jax.Array) -> jax.Array:
    """The bidiagonal matrix times each row of v [n, n], as rows."""
    return v * d + jnp.pad(v[:, 1:] * e, [(0, 0), (0, 1)])


def _bidiagonalized(a: jax.Array) -> tuple[jax.Array, jax.Array, Reflections, Reflections]:
    return (bidiagonalize if jnp.iscomplexobj(a) else real_condensed_forms.bidiagonalize)(a)


def _is_rotated(a: jax.Array) -> bool:
    """Whether rotations of all pairs of rows at once are faster than divide and conquer."""
    if not simultaneous.suits(a, simultaneous.MOST_OF_SINGULAR_VALUES.get(a.dtype.name, 0)):
        return False
    rows: int = a.shape[-2]
    return a.ndim == 2 or rows >= _LEAST_OF_BATCH


def _tall_svd(a: jax.Array, full_matrices: bool, convention: _Convention) -> Triple:
    """`svd` of matrices [..., m, n], m >= n."""

    def by_division() -> Triple:
        return over_batch(lambda a: _svd(a, full_matrices, convention), 2, a)

    if not _is_rotated(a):
        return by_division()
    moderate, scale = over_batch(scaled, 2, a)
    left, right, values, diagonal, good = _rotated(moderate)
    n = a.shape[-1]

    def by_rotations() -> Triple:
        # The vectors of diagonal matrices stay unit vectors, with LAPACK's signs.
        image = moderate @ jnp.swapaxes(right, -1, -2)
        square = jnp.pad(image, [(0, 0)] * (a.ndim - 1) + [(0, left.shape[-1] - n)])
        whole = jnp.where(diagonal[..., None, None], left, fitted(left, square))
        u = whole[..., :n, :]
        fitting = jnp.sum(jnp.swapaxes(u, -1, -2) * image, -2)
        s = jnp.where(diagonal[..., None], values, fitting)
        u, s, v = over_batch(partial(_ordered, convention), 2, u, s, right, diagonal)
        if full_matrices:
            u = jnp.concatenate([u, whole[..., n:, :]], -2)
        return adjoint(u), s * scale[..., None], v

    found: Triple = lax.cond(good, by_rotations, by_division)
    return found


class _Passes(NamedTuple):
    left: jax.Array
    right: jax.Array
    values: jax.Array
    diagonal: jax.Array
    good: jax.Array
    tiny: jax.Array
    count: jax.Array


def _rotated(a: jax.Array) -> simultaneous.Singular:
    """`simultaneous.singular_values_and_vectors`, with vectors of tiny values that are as good.

    Rotations end at errors of the size of a rounding error of A's norm. Values may be smaller, so
    the vectors of tiny ones are rotated again, by themselves.
    """
    *batch, m, n = a.shape
    more = [(0, 0)] * len(batch) + [(0, m - n)]
    eps = float(jnp.finfo(a.dtype).eps)

    def rotate(state: _Passes) -> _Passes:
        left, right, values, diagonal, good, tiny, count = state
        # The squares of values below rounding errors may underflow.
        scale = jnp.where(count > 0, 1 / eps, 1).astype(a.dtype)
        product = left @ (scale * a) @ jnp.swapaxes(right, -1, -2)
        rows = jnp.pad(tiny, more, constant_values=True)
        product = jnp.where(rows[..., :, None] & tiny[..., None, :], product, 0)
        found = simultaneous.singular_values_and_vectors(product)
        values = jnp.where(tiny, found.values / scale, values)
        size = abs(values)
        return _Passes(
            found.left @ left,
            found.right @ right,
            values,
            diagonal & found.diagonal,
            good & found.good,
            size < _NOISE * eps * jnp.max(size, -1, keepdims=True),
            count + 1,
        )

    def unit(extent: int) -> jax.Array:
        return jnp.broadcast_to(np.eye(extent, dtype=a.dtype), (*batch, extent, extent))

    def true(shape: list[int]) -> jax.Array:
        return jnp.ones(shape, bool)

    zeros = jnp.zeros((*batch, n), a.dtype)
    start = _Passes(unit(m), unit(n), zeros, true(batch), true([]), true([*batch, n]), np.int32(0))
    end = lax.while_loop(lambda state: (state.count < 2) & jnp.any(state.tiny), rotate, start)
    return simultaneous.Singular(*end[:5])


def _ordered(
    convention: _Convention, u: jax.Array, s: jax.Array, v: jax.Array, diagonal: jax.Array
) -> Triple:
    """The vectors, the rows of u and v, and the singular values s [n], of any sign, as LAPACK
    orders them; the signs matter for diagonal matrices."""
    sign, left_is = jnp.where(s < 0, -1, 1)[:, None], convention.negative_left[:, None]
    u, v, s = jnp.where(left_is, sign, 1) * u, jnp.where(left_is, 1, sign) * v, abs(s)
    order = selection_order(s, jnp.argsort(-s), convention.passes, by=diagonal)
    return u[order], s[order], v[order]


def _svd(a: jax.Array, full_matrices: bool, convention: _Convention) -> Triple:
    m, n = a.shape
    a, scale = scaled(a)
    d, e, left, right = _bidiagonalized(a)
    u, v = bidiagonal_svd(d, e, left=True)
    diagonal_already = jnp.all(e == 0)
    unit = np.eye(n, dtype=d.dtype)
    u, v = jnp.where(diagonal_already, unit, u), jnp.where(diagonal_already, unit, v)
    s = jnp.sum(u * v * d, 1) + jnp.sum(u[:, :-1] * v[:, 1:] * e, 1)
    u, s, v = _ordered(convention, u, s, v, diagonal_already)
    u, v = u.T.astype(a.dtype), v.T.astype(a.dtype)
    if full_matrices:
        u = jnp.pad(u, [(0, m - n), (0, m - n)])
        u = jnp.where((np.eye(m) > 0) & (np.arange(m) >= n), 1, u)
    else:
        u = jnp.pad(u, [(0, m - n), (0, 0)])
    u, v = left.times(u), right.times(v, shift=1)
    thin = fitted(adjoint(u[:, :n]), a @ v)
    if u.shape[1] == n:
        return adjoint(thin), s * scale, adjoint(v)
    rest = u[:, n:]
    rest -= adjoint(thin) @ (thin @ rest)
    return jnp.concatenate([adjoint(thin), rest], 1), s * scale, adjoint(v)
