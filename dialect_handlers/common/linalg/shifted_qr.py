"""Schur forms by shifted QR iterations, as LAPACK's lahqr makes them: the eigenvalues of small
matrices have LAPACK's order.

Real matrices take two shifts at once, and complex ones take one. Each step moves a bulge of 3 x 3
down the diagonal, by one reflection of three rows and columns for each row. With one shift the last
of the three elements is 0. The reflections are computed in a window, a small block on the diagonal,
many in a row. Their product is then applied to the rest of the rows and columns at once. The window
itself is copied back: small elements are as accurate as if each reflection had been applied alone.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import (
    IN_BOUNDS,
    Pair,
    Triple,
    adjoint,
    divided,
    entry,
    magnitude,
    reciprocal,
    squares,
    stretch,
    take,
    unit_phase,
)

STEPS_PER_EIGENVALUE = 30
"""Two or so are usual."""
EXCEPTIONAL = 10
"""After each such number of steps without convergence, exceptional shifts are used."""
_REFLECTIONS = 16
"""In a window: more make its products longer, fewer make more windows."""
_IN_A_TRIP = 4
"""Reflections in a trip of the loop over a window. The last trip may make some too many, which
change only signs."""


class State(NamedTuple):
    """The state of the iteration.

    Attributes:
        rows: See `_Layout`.
        last: Rows after this one are done.
        tries: Steps since the last row was done.
        steps: All steps.
    """

    rows: jax.Array
    last: jax.Array
    tries: jax.Array
    steps: jax.Array


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
    reach beyond H, and Z^H beside H.

    Attributes:
        count: The reflections of a window.
        width: Its rows and columns: those that the reflections change, two before and one after.
        size: The rows of the array, and the columns before Z^H.
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
        return jnp.concatenate([jnp.pad(h, (ends, ends)), jnp.pad(adjoint(z), (ends, (0, 0)))], 1)

    def parts(self, rows: jax.Array) -> Pair:
        inside = slice(2, self.n + 2)
        return rows[inside, inside], adjoint(rows[inside, self.size :])

    def near(self, rows: jax.Array) -> jax.Array:
        """The elements of `_Near` [9, n]."""
        places = np.array(_PLACES)[:, :, None] + self.k
        i, j = (places + 2).swapaxes(0, 1)
        return rows.at[i, j].get(mode="promise_in_bounds", wrap_negative_indices=False)


def hessenberg_schur(h: jax.Array, z: jax.Array) -> Triple:
    """T and Z' with Z H Z^H = Z' T Z'^H; T is triangular, if real but for blocks of 2 x 2.

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
    together = 1 if jnp.iscomplexobj(h) else 2
    last = jnp.where(jnp.isnan(magnitude(h[0, 0])), -1, n - 1).astype(np.int32)

    def step(now: State) -> State:
        near = layout.near(now.rows)
        parts = _Near(*jnp.split(near, 9))
        small = _small(parts, n)
        last, first = _active(small, now.last, layout.k, together)
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
    return divided(t, scale), z, end.last + 1


def _scale(h: jax.Array) -> jax.Array:
    """A power of two that makes the elements of a matrix large enough for `_reflected`."""
    limits = jnp.finfo(h.dtype)
    # The largest element of a matrix of moderate size is not less: see `blocks.scaled`.
    factor = np.exp2(-np.floor(np.log2(limits.tiny) / 2 - np.log2(limits.eps)))
    return jnp.where(jnp.max(magnitude(h)) < 1e-3, factor.astype(limits.dtype), 1)


def _small(near: _Near, n: int) -> jax.Array:
    """bool[1, n], whether the elements left of the diagonal count as 0, by the criterion of Ahues
    and Tisseur."""
    limits = jnp.finfo(near.main.dtype)
    smallest = limits.tiny * (n / limits.eps)
    element, opposite = magnitude(near.left), magnitude(near.above_before)
    here, difference = magnitude(near.main), magnitude(near.main_before - near.main)
    size = here + magnitude(near.main_before)
    size = jnp.where(size == 0, magnitude(near.left_before) + magnitude(near.below), size)
    larger, smaller = jnp.maximum(element, opposite), jnp.minimum(element, opposite)
    most, least = jnp.maximum(here, difference), jnp.minimum(here, difference)
    total = jnp.maximum(most + larger, limits.tiny)
    limit = jnp.maximum(smallest, limits.eps * (least * (most / total)))
    negligible = (element <= limits.eps * size) & (smaller * (larger / total) <= limit)
    return (element <= smallest) | negligible


def _active(small: jax.Array, last: jax.Array, k: np.ndarray, shifts: int) -> Pair:
    """The last block of more rows than shifts up to row `last`: its last row, -1 if there is none,
    and its first one."""
    coupled = ~small
    if shifts == 2:
        coupled &= take(coupled, np.maximum(k[0] - 1, 0), 1)
    last = jnp.max(jnp.where(coupled & (k <= last), k, -1))
    return last, jnp.max(jnp.where(small & (k <= last), k, 0))


def _corner(near: jax.Array, first: jax.Array, last: jax.Array, tries: jax.Array) -> jax.Array:
    """The elements a, b, c and d [4] of the block [[a, b], [c, d]] with the shifts as eigenvalues:
    the last one, or an exceptional one."""
    corner = _Near(*range(9))
    block = entry(near, jnp.maximum(last, 0), 1)[
        np.array([corner.main_before, corner.above_before, corner.left, corner.main])
    ]

    def exceptional() -> jax.Array:
        bottom = tries % (2 * EXCEPTIONAL) == 0
        end, top = entry(near, last, 1), entry(near, first, 1)
        away = jnp.where(
            bottom,
            magnitude(end[corner.left]) + magnitude(end[corner.left_before]),
            magnitude(top[corner.below]) + magnitude(top[corner.below_after]),
        )
        element = 0.75 * away + jnp.where(bottom, end[corner.main], top[corner.main])
        others = (-0.4375 * away, away)
        return jnp.stack([element, *(x.astype(element.dtype) for x in others), element])

    return lax.cond(tries % EXCEPTIONAL == 0, exceptional, lambda: block)


def _two_shifts(block: jax.Array) -> Pair:
    """The real part and the imaginary part of the shifts, [1] each: those of the eigenvalues of a
    real block that are a complex pair, or twice the real one nearer to the last element."""
    size = jnp.maximum(jnp.sum(abs(block), keepdims=True), jnp.finfo(block.dtype).tiny)
    a, b, c, d = jnp.split(block / size, 4)
    half = 0.5 * (a - d)
    square = half * half + b * c
    root = jnp.sqrt(abs(square)) * size
    mean = 0.5 * (a + d) * size
    real = square > 0
    nearer = jnp.where(half <= 0, mean + root, mean - root)
    return jnp.where(real, nearer, mean), jnp.where(real, 0, root)


def _one_shift(block: jax.Array) -> jax.Array:
    """The eigenvalue of a complex block that is nearer to the last element, [1]."""
    a, b, c, d = jnp.split(block, 4)
    product, half = jnp.sqrt(b) * jnp.sqrt(c), 0.5 * (a - d)
    size = jnp.maximum(magnitude(product), magnitude(half))
    scale = jnp.where(size == 0, 1, size)
    p, x = divided(product, scale), divided(half, scale)
    root = jnp.sqrt(x * x + p * p)
    total = x + jnp.where(x.real * root.real + x.imag * root.imag < 0, -root, root)
    return d - product * p * reciprocal(jnp.where(total == 0, 1, total))


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
    block = _corner(near, first, last, tries)
    limits = jnp.finfo(block.dtype)
    if jnp.iscomplexobj(block):
        distance = parts.main - _one_shift(block)
        size = jnp.maximum(magnitude(distance) + magnitude(parts.below), limits.tiny)
        v = divided(distance, size), divided(parts.below, size), jnp.zeros_like(parts.below)
        rows = 1
    else:
        real, imaginary = _two_shifts(block)
        distance = parts.main - real
        size = jnp.maximum(abs(distance) + imaginary + abs(parts.below), limits.tiny)
        ratio = parts.below / size
        v = (
            ratio * parts.above + distance * (distance / size) + imaginary * (imaginary / size),
            ratio * (distance + (parts.main_after - real)),
            ratio * parts.below_after,
        )
        rows = 2
    sizes = [magnitude(x) for x in v]
    around = sum(magnitude(x) for x in (parts.main_before, parts.main, parts.main_after))
    small = magnitude(parts.left) * (sizes[1] + sizes[2]) <= limits.eps * sizes[0] * around
    there = (small & (k >= first) & (k <= last - rows)) | (k == first)
    begin = jnp.max(jnp.where(there, k, 0))
    vector = stretch(jnp.concatenate(v), begin, 1, 1)
    total = jnp.sum(magnitude(vector), keepdims=True)
    return begin, divided(vector, jnp.maximum(total, limits.tiny))


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
        columns = stretch(rows, top, width, 1) @ adjoint(turn)
        rows = lax.dynamic_update_slice_in_dim(rows, columns, top, 1, **IN_BOUNDS)
        place = (top + 2, top + 2)
        return lax.dynamic_update_slice(rows, box[2:, 2:], place, **IN_BOUNDS)

    windows = lax.div(last - begin + (count - 1), np.int32(count))
    rows = lax.fori_loop(0, windows, window, rows)
    i, j = (np.arange(extent) for extent in rows.shape)
    keep = (i[:, None] <= j + 1) | (j >= layout.size)
    return jnp.where(keep, rows, 0)


def _reflected(box: jax.Array, count: jax.Array) -> Pair:
    """Q^H W Q and Q^H for the product Q of so many reflections or some more, of a window W.

    The first reflection is of the rows 2, 3 and 4, and puts zeros into column 1. After each trip
    the first rows and columns move to the end. A reflection is I - 2 u u^H / |u|^2. All but the
    last of a trip are halved and the last is multiplied: so no product needs the factor 2."""
    width = box.shape[0]
    i = np.arange(width, dtype=np.int32)
    unit = np.eye(width, dtype=box.dtype)
    onwards = np.roll(unit, -_IN_A_TRIP, 0)
    # Shorter vectors are not reflected: their squares are not accurate.
    limits = jnp.finfo(box.dtype)
    least = np.exp2(np.ceil(np.log2(limits.tiny) / 2) + 1).astype(limits.dtype)

    def vector(box: jax.Array, k: int) -> jax.Array:
        """u [w, 1] of the reflection of row k and the next two."""
        inside = (i >= k) & (i < k + 3)
        # The other elements are one that is 0.
        rows, columns = np.where(inside, i, k + 2), np.where(inside, k - 1, k - 2)
        x = box.at[rows[:, None], columns[:, None]].get(
            mode="promise_in_bounds", wrap_negative_indices=False
        )
        norm = jnp.maximum(jnp.sqrt(jnp.sum(squares(x), keepdims=True)), least)
        here = unit[:, k : k + 1]
        if jnp.iscomplexobj(x):
            return x + here * (unit_phase(x[k : k + 1]) * norm)
        return x + jnp.where(x < 0, -here, here) @ norm

    def trip(_: jax.Array, state: Pair) -> Pair:
        box, turn = state
        for number in range(_IN_A_TRIP):
            u = vector(box, number + 2)
            plain, left = 0.5 * unit, u
            if number == _IN_A_TRIP - 1:
                factor = 2 ** (_IN_A_TRIP - 1)
                plain, left = factor * onwards, (2 * factor * onwards) @ u
            turned = plain - left @ adjoint(divided(u, jnp.sum(squares(u), keepdims=True)))
            box, turn = turned @ box @ adjoint(turned), turned @ turn
        return box, turn

    trips = lax.div(count + (_IN_A_TRIP - 1), np.int32(_IN_A_TRIP))
    box, turn = lax.fori_loop(0, trips, trip, (box, unit))
    back = lax.rem(i + width - trips * _IN_A_TRIP, np.int32(width))
    return take(take(box, back), back, 1), take(turn, back)
