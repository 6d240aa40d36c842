"""Real Schur forms by QR iterations with two shifts at once, as LAPACK's lahqr makes them: the
eigenvalues of small matrices have LAPACK's order.

Each step moves a bulge of 3 x 3 down the diagonal, by one reflection of three rows and columns for
each row. They are computed in a window, a small block on the diagonal, many in a row. Their product
is then applied to the rest of the rows and columns at once. The window itself is copied back: small
elements are as accurate as if each reflection had been applied alone.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import IN_BOUNDS, Pair, Triple, entry, stretch, take
from dialect_handlers.common.linalg.shifted_qr import EXCEPTIONAL, STEPS_PER_EIGENVALUE, State

_REFLECTIONS = 16
"""In a window: more make its products longer, fewer make more windows."""
_IN_A_TRIP = 4
"""Reflections in a trip of the loop over a window. The last trip may make some too many, which
change only signs."""


class _Near(NamedTuple):
    """Elements of H near its diagonal, for every row k: [1, n] each, 0 outside of H.

    Attributes:
        main: H[k, k]; before and after it: H[k - 1, k - 1] and H[k + 1, k + 1].
        below: H[k + 1, k], and the next one: H[k + 2, k + 1].
        left: H[k, k - 1], and the one before it: H[k - 1, k - 2].
        above: H[k, k + 1], and the one before it: H[k - 1, k].
    """

    main: jax.Array
    main_before: jax.Array
    main_after: jax.Array
    below: jax.Array
    below_after: jax.Array
    left: jax.Array
    left_before: jax.Array
    above: jax.Array
    above_before: jax.Array


_PLACES = _Near(
    *np.array([[0, 0], [-1, -1], [1, 1], [1, 0], [2, 1], [0, -1], [-1, -2], [0, 1], [-1, 0]])
)
"""Their rows and columns relative to row k."""


class _Layout:
    """Where the elements are in `State.rows`: H[0, 0] at [2, 2], then zeros for the windows that
    reach beyond H, and Z^T beside H.

    Attributes:
        count: The reflections of a window.
        width: Its rows and columns: those that the reflections change, two before and one after.
        size: The rows of the array, and the columns before Z^T.
    """

    def __init__(self, n: int, dtype: np.dtype) -> None:
        self.n, self.dtype = n, dtype
        trips = -(-min(n - 1, _REFLECTIONS) // _IN_A_TRIP)
        self.count = trips * _IN_A_TRIP
        self.width = self.count + 5
        self.size = n + 3 + self.count
        self.k = np.arange(n, dtype=np.int32)[None]

    def joined(self, h: jax.Array, z: jax.Array) -> jax.Array:
        ends = (2, self.size - self.n - 2)
        return jnp.concatenate([jnp.pad(h, (ends, ends)), jnp.pad(z.T, (ends, (0, 0)))], 1)

    def parts(self, rows: jax.Array) -> Pair:
        inside = slice(2, self.n + 2)
        return rows[inside, inside], rows[inside, self.size :].T

    def near(self, rows: jax.Array) -> jax.Array:
        """The elements of `_Near` [9, n]."""
        places = np.array(_PLACES)[:, :, None] + self.k
        i, j = (places + 2).swapaxes(0, 1)
        return rows.at[i, j].get(mode="promise_in_bounds", wrap_negative_indices=False)


def hessenberg_schur(h: jax.Array, z: jax.Array) -> Triple:
    """T and Z' with Z H Z^T = Z' T Z'^T; T is triangular but for blocks of 2 x 2.

    Args:
        h: [n, n], n >= 1, zero below the diagonal beneath the main one; or NaN throughout.
        z: [p, n]

    Returns:
        T [n, n], Z' [p, n], and the number from 1 of the last eigenvalue not found, or 0.
    """
    n = h.shape[0]
    if n == 1:
        return h, z, jnp.int32(0)
    layout = _Layout(n, h.dtype)
    scale = _scale(h)
    last = jnp.where(jnp.isnan(h[0, 0]), -1, n - 1).astype(np.int32)

    def step(now: State) -> State:
        near = layout.near(now.rows)
        parts = _Near(*jnp.split(near, 9))
        small = _small(parts, n)
        last, first = _active(small, now.last, layout.k)
        tries = jnp.where(last == now.last, now.tries, 0) + 1
        i = np.arange(n)
        rows = now.rows.at[i + 2, i + 1].set(
            jnp.where(small, 0, parts.left)[0], mode="promise_in_bounds", unique_indices=True
        )
        begin, vector = _start(parts, near, first, last, tries, layout.k)
        return State(_swept(layout, rows, vector, begin, last), last, tries, now.steps + 1)

    def going(now: State) -> jax.Array:
        return (now.last >= 0) & (now.steps < STEPS_PER_EIGENVALUE * max(n, 10))

    start = State(layout.joined(h * scale, z), last, np.int32(0), np.int32(0))
    end = lax.while_loop(going, step, start)
    t, z = layout.parts(end.rows)
    return t / scale, z, end.last + 1


def _scale(h: jax.Array) -> jax.Array:
    """A power of two that makes the elements of a matrix large enough for `_reflected`."""
    limits = jnp.finfo(h.dtype)
    # The largest element of a matrix of moderate size is not less: see `scaling.scaled`.
    factor = np.exp2(-np.floor(np.log2(limits.tiny) / 2 - np.log2(limits.eps)))
    return jnp.where(jnp.max(abs(h)) < 1e-3, factor.astype(h.dtype), 1)


def _small(near: _Near, n: int) -> jax.Array:
    """bool[1, n], whether the elements left of the diagonal count as 0, by the criterion of Ahues
    and Tisseur."""
    limits = jnp.finfo(near.main.dtype)
    smallest = limits.tiny * (n / limits.eps)
    element, opposite = abs(near.left), abs(near.above_before)
    here, difference = abs(near.main), abs(near.main_before - near.main)
    size = here + abs(near.main_before)
    size = jnp.where(size == 0, abs(near.left_before) + abs(near.below), size)
    larger, smaller = jnp.maximum(element, opposite), jnp.minimum(element, opposite)
    most, least = jnp.maximum(here, difference), jnp.minimum(here, difference)
    total = jnp.maximum(most + larger, limits.tiny)
    limit = jnp.maximum(smallest, limits.eps * (least * (most / total)))
    negligible = (element <= limits.eps * size) & (smaller * (larger / total) <= limit)
    return (element <= smallest) | negligible


def _active(small: jax.Array, last: jax.Array, k: np.ndarray) -> Pair:
    """The last block of more than two rows up to row `last`: its last row, -1 if there is none, and
    its first one."""
    coupled = ~small
    third = coupled & take(coupled, np.maximum(k[0] - 1, 0), 1)
    last = jnp.max(jnp.where(third & (k <= last), k, -1))
    return last, jnp.max(jnp.where(small & (k <= last), k, 0))


def _shifts(near: jax.Array, first: jax.Array, last: jax.Array, tries: jax.Array) -> Pair:
    """The real part and the imaginary part of the shifts, [1] each: those of the eigenvalues of the
    last 2 x 2 block that are a complex pair, or twice the real one nearer to the last element."""
    corner = _Near(*range(9))
    block = entry(near, jnp.maximum(last, 0), 1)[
        np.array([corner.main_before, corner.above_before, corner.left, corner.main])
    ]

    def exceptional() -> jax.Array:
        bottom = tries % (2 * EXCEPTIONAL) == 0
        end, top = entry(near, last, 1), entry(near, first, 1)
        away = jnp.where(
            bottom,
            abs(end[corner.left]) + abs(end[corner.left_before]),
            abs(top[corner.below]) + abs(top[corner.below_after]),
        )
        element = 0.75 * away + jnp.where(bottom, end[corner.main], top[corner.main])
        return jnp.stack([element, -0.4375 * away, away, element])

    block = lax.cond(tries % EXCEPTIONAL == 0, exceptional, lambda: block)
    size = jnp.maximum(jnp.sum(abs(block), keepdims=True), jnp.finfo(near.dtype).tiny)
    a, b, c, d = jnp.split(block / size, 4)
    half = 0.5 * (a - d)
    square = half * half + b * c
    root = jnp.sqrt(abs(square)) * size
    mean = 0.5 * (a + d) * size
    real = square > 0
    nearer = jnp.where(half <= 0, mean + root, mean - root)
    return jnp.where(real, nearer, mean), jnp.where(real, 0, root)


def _start(
    parts: _Near,
    near: jax.Array,
    first: jax.Array,
    last: jax.Array,
    tries: jax.Array,
    k: np.ndarray,
) -> Pair:
    """The row where the step begins, the last one before which the elements are negligible then;
    and the vector [3, 1] that the first reflection makes a multiple of e_1."""
    real, imaginary = _shifts(near, first, last, tries)
    limits = jnp.finfo(real.dtype)
    distance = parts.main - real
    size = jnp.maximum(abs(distance) + imaginary + abs(parts.below), limits.tiny)
    ratio = parts.below / size
    v = (
        ratio * parts.above + distance * (distance / size) + imaginary * (imaginary / size),
        ratio * (distance + (parts.main_after - real)),
        ratio * parts.below_after,
    )
    around = abs(parts.main_before) + abs(parts.main) + abs(parts.main_after)
    small = abs(parts.left) * (abs(v[1]) + abs(v[2])) <= limits.eps * abs(v[0]) * around
    there = (small & (k >= first) & (k <= last - 2)) | (k == first)
    begin = jnp.max(jnp.where(there, k, 0))
    vector = stretch(jnp.concatenate(v), begin, 1, 1)
    total = jnp.sum(abs(vector), keepdims=True)
    return begin, vector / jnp.maximum(total, limits.tiny)


def _swept(
    layout: _Layout, rows: jax.Array, vector: jax.Array, begin: jax.Array, last: jax.Array
) -> jax.Array:
    """The rows after a step from one row to another, with zeros below the subdiagonal."""
    width, count = layout.width, layout.count
    # The first window has the vector in the place of a column.
    start = jnp.pad(vector, [(2, width - 5), (1, width - 2)])
    beside = np.arange(width) == 1

    def window(number: jax.Array, rows: jax.Array) -> jax.Array:
        top = begin + number * count
        box = lax.dynamic_slice(rows, (top, top), (width, width), **IN_BOUNDS)
        box = jnp.where((number == 0) & beside, start, box)
        box, turn = _reflected(box, jnp.minimum(last - top, count))
        rows = lax.dynamic_update_slice_in_dim(
            rows, turn @ stretch(rows, top, width), top, 0, **IN_BOUNDS
        )
        columns = stretch(rows, top, width, 1) @ turn.T
        rows = lax.dynamic_update_slice_in_dim(rows, columns, top, 1, **IN_BOUNDS)
        place = (top + 2, top + 2)
        return lax.dynamic_update_slice(rows, box[2:, 2:], place, **IN_BOUNDS)

    windows = lax.div(last - begin + (count - 1), np.int32(count))
    rows = lax.fori_loop(0, windows, window, rows)
    i, j = (np.arange(extent) for extent in rows.shape)
    keep = (i[:, None] <= j + 1) | (j >= layout.size)
    return rows * keep.astype(layout.dtype)


def _reflected(box: jax.Array, count: jax.Array) -> Pair:
    """Q^T W Q and Q^T for the product Q of so many reflections or some more, of a window W.

    The first reflection is of the rows 2, 3 and 4, and puts zeros into column 1. After each trip
    the first rows and columns move to the end. A reflection is I - 2 u u^T / |u|^2. All but the
    last of a trip are halved and the last is multiplied: so no product needs the factor 2."""
    width = box.shape[0]
    i = np.arange(width, dtype=np.int32)
    unit = np.eye(width, dtype=box.dtype)
    onwards = np.roll(unit, -_IN_A_TRIP, 0)
    # Shorter vectors are not reflected: their squares are not accurate.
    least = np.exp2(np.ceil(np.log2(jnp.finfo(box.dtype).tiny) / 2) + 1).astype(box.dtype)

    def vector(box: jax.Array, k: int) -> jax.Array:
        """u [w, 1] of the reflection of row k and the next two."""
        inside = (i >= k) & (i < k + 3)
        # The other elements are one that is 0.
        rows, columns = np.where(inside, i, k + 2), np.where(inside, k - 1, k - 2)
        x = box.at[rows[:, None], columns[:, None]].get(
            mode="promise_in_bounds", wrap_negative_indices=False
        )
        norm = jnp.maximum(jnp.sqrt(jnp.sum(x * x, keepdims=True)), least)
        here = unit[:, k : k + 1]
        return x + jnp.where(x < 0, -here, here) @ norm

    def trip(_: jax.Array, state: Pair) -> Pair:
        box, turn = state
        for number in range(_IN_A_TRIP):
            u = vector(box, number + 2)
            plain, left = 0.5 * unit, u
            if number == _IN_A_TRIP - 1:
                factor = 2 ** (_IN_A_TRIP - 1)
                plain, left = factor * onwards, (2 * factor * onwards) @ u
            turned = plain - left @ (u / jnp.sum(u * u, keepdims=True)).T
            box, turn = turned @ box @ turned.T, turned @ turn
        return box, turn

    trips = lax.div(count + (_IN_A_TRIP - 1), np.int32(_IN_A_TRIP))
    box, turn = lax.fori_loop(0, trips, trip, (box, unit))
    back = lax.rem(i + width - trips * _IN_A_TRIP, np.int32(width))
    return take(take(box, back), back, 1), take(turn, back)
