"""Helpers of the algorithms: blocks, masks, inverses of small triangles, and moderate elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Pair = tuple[jax.Array, jax.Array]
Triple = tuple[jax.Array, jax.Array, jax.Array]
Result = TypeVar("Result")

NO_TRANSPOSE, TRANSPOSE, ADJOINT = "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"
"""What a function does to a matrix before it uses it."""

IN_BOUNDS = {"allow_negative_indices": False}
"""For dynamic slices that never start at a negative index."""

LARGEST_BLOCK = 32
"""Columns of a block, as in LAPACK: on any runtime a trip of a loop costs more than a few columns
of a product."""


def block_size(n: int) -> int:
    """The width of equal blocks of n >= 1 columns, as few of them as there can be."""
    return -(-n // -(-n // LARGEST_BLOCK))


def is_symbolic(n: int) -> bool:
    """Whether an extent is known only at run time. The algorithms then use no blocks, and go column
    by column."""
    return not isinstance(n, int)


def counted(n: int) -> jax.Array | np.ndarray:
    """0, 1, 2, ..., i32[n]: a constant where the extent is one."""
    return lax.iota(np.int32, n) if is_symbolic(n) else np.arange(n, dtype=np.int32)


def trips(n: int) -> dict[str, int | jax.Array]:
    """The keywords that make lax.scan go n times; `length` has to be a number."""
    return {"xs": lax.iota(np.int32, n)} if is_symbolic(n) else {"length": n}


def last_index(n: int) -> jax.Array | np.int64:
    """n - 1 as i64."""
    return jnp.asarray(n - 1, np.int64) if is_symbolic(n) else np.int64(n - 1)


def entry(x: jax.Array, index: jax.Array, axis: int = 0) -> jax.Array:
    """The element or slice of x at an index that is in bounds, without the axis."""
    return lax.dynamic_index_in_dim(x, index, axis, keepdims=False, **IN_BOUNDS)


def stretch(x: jax.Array, first: jax.Array, size: int, axis: int = 0) -> jax.Array:
    """So many slices of x from one that is in bounds on."""
    return lax.dynamic_slice_in_dim(x, first, size, axis, **IN_BOUNDS)


def take(x: jax.Array, indices: jax.Array, axis: int = 0) -> jax.Array:
    """The elements or slices of x at indices [k] that are in bounds."""
    where = (slice(None),) * axis + (indices,)
    return x.at[where].get(mode="promise_in_bounds", wrap_negative_indices=False)


def inverse(order: jax.Array) -> jax.Array:
    """The inverse of a permutation, i32[n]."""
    n = order.shape[0]
    count = np.arange(n, dtype=np.int32)
    return jnp.zeros(n, np.int32).at[order].set(count, unique_indices=True)


def adjoint(x: jax.Array) -> jax.Array:
    """The conjugate transpose of each matrix."""
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def diagonal(x: jax.Array) -> jax.Array:
    """The diagonal of each square matrix: [..., n, n] -> [..., n]."""
    n = x.shape[-1]
    return jnp.sum(jnp.where(eye(n), x, 0), axis=-1)


def eye(n: int) -> jax.Array:
    """The mask of the diagonal, bool[n, n]."""
    i = lax.iota(np.int32, n)
    return i[:, None] == i


def divided(x: jax.Array, divisor: jax.Array) -> jax.Array:
    """x / divisor for a real divisor; a division of complex numbers is long."""
    if jnp.iscomplexobj(x):
        return lax.complex(x.real / divisor, x.imag / divisor)
    return x / divisor


def reciprocal(x: jax.Array) -> jax.Array:
    """1 / x; for complex numbers scaled so that no square overflows."""
    if not jnp.iscomplexobj(x):
        return 1 / x
    size = magnitude(x)
    re, im = x.real / size, x.imag / size
    square = (re * re + im * im) * size
    return lax.complex(re / square, -im / square)


def magnitude(x: jax.Array) -> jax.Array:
    """|x|, for complex numbers |re| + |im|."""
    return abs(x.real) + abs(x.imag) if jnp.iscomplexobj(x) else abs(x)


def squares(x: jax.Array) -> jax.Array:
    """|x|^2."""
    return x.real * x.real + x.imag * x.imag if jnp.iscomplexobj(x) else x * x


def unit_phase(x: jax.Array) -> jax.Array:
    """Complex numbers with the phase of x, and absolute value 1; 1 for 0."""
    size = magnitude(x)
    x = divided(x, jnp.where(size > 0, size, 1))
    return jnp.where(size > 0, divided(x, jnp.sqrt(squares(x))), 1)


def first_largest(x: jax.Array, start: jax.Array) -> jax.Array:
    """The index, i32[...], of the first of the largest elements of x [..., n] from an index on; any
    index from there on if NaN is among them."""
    least = x.dtype.type(-np.inf)
    axis = x.ndim - 1
    position = lax.broadcasted_iota(np.int32, x.shape, axis)
    start = start.astype(np.int32)
    left = jnp.where(position >= start, x, least)
    found = lax.reduce((left, position), (least, np.int32(0)), _larger, (axis,))[1]
    # ArgMax of NaN is any index, also one before the start.
    return jnp.maximum(found, start)


def largest_place(x: jax.Array, axis: int = 0) -> jax.Array:
    """The index along an axis, i64, of the first of the largest elements of x; any index if NaN is
    among them."""
    position = lax.broadcasted_iota(np.int64, x.shape, axis)
    least = x.dtype.type(-np.inf)
    return lax.reduce((x, position), (least, np.int64(0)), _larger, (axis,))[1]


def _larger(left: Pair, right: Pair) -> Pair:
    (x, i), (y, j) = left, right
    wins = x >= y
    return lax.select(wins, x, y), lax.select(x == y, lax.min(i, j), lax.select(wins, i, j))


def first_where(condition: jax.Array) -> jax.Array:
    """The number, from 1, of the first element that is true, 0 if none is: bool[..., n] ->
    i32[...], as LAPACK's info says where a factorization failed."""
    n = condition.shape[-1]
    number = jnp.where(condition, counted(n) + 1, n + 1)
    # Without elements there is no least one.
    initial = n + 1 if is_symbolic(n) or n == 0 else None
    return (jnp.min(number, -1, initial=initial) % (n + 1)).astype(np.int32)


def padded(x: jax.Array, rows: int, columns: int) -> jax.Array:
    """Each matrix extended to this shape with zeros, and with ones on the new diagonal."""
    m, n = x.shape[-2:]
    if (m, n) == (rows, columns):
        return x
    pad = [(0, 0)] * (x.ndim - 2) + [(0, rows - m), (0, columns - n)]
    i = np.arange(rows, dtype=np.int32)[:, None]
    new = (i >= max(m, n)) & (i == np.arange(columns, dtype=np.int32))
    return jnp.where(new, jnp.ones((), x.dtype), jnp.pad(x, pad))


def with_unit_front(a: jax.Array, count: int) -> jax.Array:
    """[I, 0; 0, A] for a matrix A and the unit matrix of this size."""
    if not count:
        return a
    m, n = a.shape
    i, j = (np.arange(count + extent, dtype=np.int32) for extent in (m, n))
    unit = (i[:, None] == j) & (j < count)
    return jnp.where(unit, 1, jnp.pad(a, [(count, 0), (count, 0)]))


def triangle_inverse(t: jax.Array, *, unit: bool = False) -> jax.Array:
    """The inverse of triangular matrices, lower or upper, zeros in their other triangle.

    The inverses X1 and X2 of two diagonal blocks and the off-diagonal block C give the inverse
    of the block that contains them: [X1, 0; -X2 C X1, X2]. All blocks of one size are
    processed at once, in log2(n) steps: X <- X - X C X for the block diagonal X and all the C.

    Args:
        unit: Whether the diagonals hold ones.
    """
    n = t.shape[-1]
    x = np.eye(n, dtype=t.dtype) if unit else _reciprocal_diagonal(t)
    size = 1
    while size < n:
        between = _masked(t, _beside(n, size))
        x = x - (between if unit and size == 1 else x @ between @ x)
        size *= 2
    return jnp.broadcast_to(x, t.shape)


def _beside(n: int, size: int) -> np.ndarray:
    """The mask of the blocks beside each two diagonal blocks of this size, bool[n, n]."""
    part, whole = (np.arange(n) // extent for extent in (size, 2 * size))
    beside: np.ndarray = (part[:, None] != part) & (whole[:, None] == whole)
    return beside


def _masked(t: jax.Array, mask: np.ndarray) -> jax.Array:
    """The elements of real matrices times 0 or 1: a selection takes three times as long. It spreads
    NaN and infinities, and so does the product that follows."""
    return jnp.where(mask, t, 0) if jnp.iscomplexobj(t) else t * mask.astype(t.dtype)


def _reciprocal_diagonal(t: jax.Array) -> jax.Array:
    """The matrices with the reciprocals of the diagonals of t, and zeros elsewhere."""
    mask = np.eye(t.shape[-1], dtype=bool)
    if jnp.iscomplexobj(t):
        return jnp.where(mask, reciprocal(jnp.where(mask, t, 1)), 0)
    return mask.astype(t.dtype) / (_masked(t, mask) + (~mask).astype(t.dtype))


def refined_product(inverse: jax.Array, t: jax.Array, b: jax.Array) -> jax.Array:
    """t \\ b through the inverse of t, refined once. The residual is then as small as that of
    substitution, unless t is nearly singular."""
    x = inverse @ b
    return x + inverse @ (b - t @ x)


def over_batch(function: Callable[..., Result], rank: int, *arrays: jax.Array) -> Result:
    """Applies a function of single arrays, the first of this rank, over common leading axes."""
    for _ in range(arrays[0].ndim - rank):
        function = jax.vmap(function)
    return function(*arrays)


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
    scale = moderating(largest)
    return jnp.where(jnp.isfinite(largest), divided(a, scale), np.nan), scale


def moderating(largest: jax.Array) -> jax.Array:
    """What to divide matrices by whose largest elements these are, so that squares of elements
    neither overflow nor underflow; 1 for all but extreme matrices."""
    limits = jnp.finfo(largest.dtype)
    smallest = np.sqrt(limits.tiny) / limits.eps
    extreme = (largest < smallest) | (largest > 1 / smallest)
    return jnp.where(extreme & (largest > 0), largest, 1)
