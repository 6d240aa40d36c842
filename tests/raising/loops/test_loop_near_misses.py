"""Loops that the rules rewrite, and loops that differ from them in one ingredient.

Each is compared with XLA with all rules, and without those that look at whole loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx
from tests.support.rule_names import LOOP_RULE_NAMES

RNG = np.random.default_rng(0)
Program = tuple[Callable[..., Any], tuple[Any, ...]]


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


X, Y = normal(8, 3), normal(8, 3)
ODD = np.where(X > 1, np.nan, np.where(X < -1, -0.0, X)).astype(np.float32)
INTS = (X * 1e8).astype(np.int32)


def trips(body: Callable[..., Any], *initial: Any, start: int = 0, stop: int = 8) -> Program:
    """fori_loop over states that are arguments."""

    def function(*states: Any) -> Any:
        return lax.fori_loop(start, stop, lambda i, states: body(i, *states), states)

    return function, initial


def scanned(body: Callable[[Any, Any], Any], *args: Any, **options: Any) -> Program:
    """scan over a state and rows that are arguments."""
    return lambda state, rows: lax.scan(body, state, rows, **options), args


# -- what a trip writes into a buffer: a stack, or not quite ----------------------------

WRITES: dict[str, Program] = {
    "each-row": trips(lambda i, x, y: (x + 1, y.at[i].set(x[0])), X, Y),
    "backwards": trips(lambda i, x, y: (x + 1, y.at[-1 - i].set(x[0])), X, Y),
    "some-rows": trips(lambda i, x, y: (x + 1, y.at[i].set(x[0])), X, Y, stop=5),
    "the-last-rows": trips(lambda i, x, y: (x + 1, y.at[i].set(x[0])), X, Y, start=2),
    "the-next-row": trips(lambda i, x, y: (x + 1, y.at[i + 1].set(x[0])), X, Y),
    "around-the-end": trips(lambda i, x, y: (x + 1, y.at[i - 3].set(x[0])), X, Y),
    "clamped": trips(lambda i, x, y: (x + 1, lax.dynamic_update_slice(y, x[:1], (i + 3, 0))), X, Y),
    "two-rows": trips(lambda i, x, y: (x + 1, lax.dynamic_update_slice(y, x[:2], (i, 0))), X, Y),
    "added": trips(lambda i, x, y: (x + 1, y.at[i].add(x[0])), X, Y),
    "dropped": trips(lambda i, x, y: (x + 1, y.at[i + 2].set(x[0], mode="drop")), X, Y),
    "read-before": trips(lambda i, x, y: (x + y[i], y.at[i].set(x[0])), X, Y),
    "read-the-row-before": trips(lambda i, x, y: (x + y[i - 1], y.at[i].set(x[0])), X, Y),
    "read-after": trips(lambda i, x, y: (lambda z: (x + z[i], z))(y.at[i].set(x[0])), X, Y),
    "twice": trips(lambda i, x, y: (x + 1, y.at[i].set(x[0]).at[i].set(x[1])), X, Y),
    "returned-twice": trips(lambda i, x, y: (lambda z: (z, z))(y.at[i].set(x[0])), X, Y),
    "swapped": trips(lambda i, x, y: (y.at[i].set(1), x.at[i].set(2)), X, Y),
    "part-of-a-row": trips(lambda i, x, y: (x + 1, y.at[i, :2].set(x[0, :2])), X, Y),
    "a-column": trips(lambda i, x, y: (x + 1, y.at[:, i].set(x[:, 0])), X, Y, stop=3),
    "every-other-row": trips(lambda i, x, y: (x + 1, y.at[2 * i].set(x[0])), X, Y, stop=4),
    "each-row-twice": trips(lambda i, x, y: (x + 1, y.at[i // 2].set(x[0])), X, Y),
    "in-a-branch": trips(
        lambda i, x, y: (x + 1, lax.cond(x[0, 0] > 0, lambda: y.at[i].set(x[0]), lambda: y)), X, Y
    ),
    "captured": trips(
        lambda i, x, y: (x + lax.cond(x[0, 0] > 0, lambda: y, lambda: x), y.at[i].set(x[0])), X, Y
    ),
}

# -- what a trip reads of a tensor: its row, or not quite ----------------------------

ROWS: dict[str, Program] = {
    name: trips(lambda i, x, y, of=of: (x, y + jnp.exp(of(i, x))), X, Y, stop=stop)
    for name, of, stop in [
        ("each", lambda i, x: x[i], 8),
        ("next", lambda i, x: x[i + 1], 8),
        ("before", lambda i, x: x[i - 1], 8),
        ("backwards", lambda i, x: x[7 - i], 8),
        ("negative", lambda i, x: x[-i], 8),
        ("doubled", lambda i, x: x[2 * i], 8),
        ("halved", lambda i, x: x[i // 2], 8),
        ("around", lambda i, x: x[(i + 3) % 5], 8),
        ("beyond", lambda i, x: x[i], 12),
        ("filled", lambda i, x: jnp.take(x, i, axis=0, mode="clip"), 12),
        ("clamped", lambda i, x: lax.dynamic_slice(x, (i - 4, 0), (2, 3)).sum(0), 8),
        ("by-a-state", lambda i, x: x[(x[0, 0] * i).astype(int)], 8),
    ]
}

# -- states ----------------------------

SCANS: dict[str, Program] = {
    "no-trip": scanned(lambda c, r: (c + jnp.exp(r), c * r), X[0], X[:0]),
    "one-trip": scanned(lambda c, r: (c + jnp.exp(r), c * r), X[0], X[:1]),
    "empty-rows": scanned(lambda c, r: (c + 1, (jnp.exp(r), c)), X[0], X[:, :0]),
    "empty-state": scanned(lambda c, r: (jnp.exp(c), (r, c)), X[:0], X),
    "no-state": scanned(lambda c, r: (c, (r, r + 1, jnp.argmax(r), jnp.sort(r))), None, X),
    "unchanged": scanned(lambda c, r: (c, c * r), X[0], X),
    "replaced-by-the-row": scanned(lambda c, r: (r, (c, r, r)), X[0], X),
    "replaced-by-a-function-of-the-row": scanned(lambda c, r: (jnp.exp(r), c * r), X[0], X),
    "twice-the-same": scanned(
        lambda c, r: ((c[0] * r, c[0] * r), (c[0], c[1])), (X[0], X[1]), X
    ),
    "swapped": scanned(lambda c, r: ((c[1], c[0]), c[0] * r), (X[0], X[1]), X),
    "shifted": scanned(lambda c, r: ((r, c[0], c[1]), c[2]), (X[0], X[1], X[2]), X),
    "read-by-nobody": scanned(lambda c, r: ((c[0] + r, c[1] * 2), c[0]), (X[0], X[1]), X),
    "nan-and-negative-zero": scanned(
        lambda c, r: (jnp.maximum(c, r), (-r, jnp.sign(r), jnp.minimum(r, 0.0), r.max())),
        np.full(3, -0.0, np.float32),
        ODD,
    ),
    "wrapping": scanned(lambda c, r: (c * 3 + r, (c // 7, c % 5, c >> 1)), INTS[0], INTS),
    "small-unsigned": scanned(lambda c, r: (c + np.uint8(100), r + c), np.uint8(3), np.uint8(X)),
    "f16": scanned(lambda c, r: (c * r, (jnp.exp(r), c + r)), np.float16(X[0]), np.float16(X)),
    "complex": scanned(lambda c, r: (c * r, jnp.exp(r)), X[0] + 1j * X[1], X + 1j * Y),
    "a-bias-of-more-axes": scanned(lambda c, r: (c + r, ((r + Y).sum(0), c + Y)), X[0], X),
    "divided-by-zero": scanned(lambda c, r: (c + 1, (r // c, r % c)), INTS[0] * 0, INTS),
    "captured-by-a-loop": scanned(
        lambda c, r: (
            lax.fori_loop(0, 3, lambda j, a: a + jnp.exp(r)[j] * c, c) / 9,
            lax.map(lambda e: e * c, r),
        ),
        X[0],
        X,
    ),
    "captured-by-a-branch": scanned(
        lambda c, r: (c + lax.cond(r[0] > 0, lambda: jnp.exp(r), lambda: c), c), X[0], X
    ),
    "numbers-of-two-loops": trips(
        lambda i, x, y: (x, lax.fori_loop(0, 3, lambda j, z: z + i * x[i, j] - j, y)), X, Y
    ),
    "the-number-itself": trips(lambda i, x, y: (i, y + x), np.int32(3), Y),
    "counted-down": trips(lambda i, x, y: (x - np.int8(100), y + x), np.int8(3), Y),
}  # fmt: skip

ALL = {
    f"{kind}-{name}": program
    for kind, programs in [
        ("writes", WRITES), ("rows", ROWS), ("states", SCANS)
    ]
    for name, program in programs.items()
}  # fmt: skip


def check(name: str, without: Any = frozenset()) -> None:
    function, args = ALL[name]
    program = hlo2onnx.translate(jax.jit(function).lower(*args), without=without)
    report = program.verify(*args)
    assert report.ok, report


@pytest.mark.costly
@pytest.mark.parametrize("name", ALL)
def test_with_all_rules(name: str) -> None:
    check(name)


@pytest.mark.wide
@pytest.mark.parametrize("kept", [*sorted(LOOP_RULE_NAMES), "none"])
@pytest.mark.parametrize("name", ALL)
def test_with_one_rule_about_loops(name: str, kept: str) -> None:
    check(name, LOOP_RULE_NAMES - {kept})


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_trips_known_at_run_time(dtype: Any, down: bool, count: int) -> None:
    """Up to the last number of the type, and down to the first."""
    info = np.iinfo(dtype)
    end = dtype(info.min if down else info.max)
    start = dtype(info.min + count if down else info.max - count)
    step = dtype(1)

    def function(first: Any, last: Any) -> Any:
        if down:
            goes = lambda s: s[0] > last  # noqa: E731
            return lax.while_loop(goes, lambda s: (s[0] - step, s[1] * 3 + s[0]), (first, first))
        goes = lambda s: s[0] < last  # noqa: E731
        return lax.while_loop(goes, lambda s: (s[0] + step, s[1] * 3 + s[0]), (first, first))

    with jax.enable_x64(True):
        program = hlo2onnx.translate(jax.jit(function).lower(start, end))
        assert program.verify(start, end).ok
        assert program.verify(end, start).ok
