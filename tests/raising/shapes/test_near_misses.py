"""Near misses of rules about shapes and neutral operands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from near_misses import FLOATS, PLACES, Family, Last, a_ulp_more, check, here, variants


def neutral(x: Array, by: Any = 1, op: str = "mul", side: int = 0, last: Last = here) -> Array:
    """x op constant, or constant op x."""
    function: Callable[..., Array] = getattr(jax.lax, op)
    pair = (x, np.full(x.shape, by, x.dtype))
    return 1 / last(lambda: function(*pair[:: 1 - 2 * side]))


def transposed(
    x: Array,
    perm: tuple[int, ...] = (1, 2, 0),
    then: str = "add",
    other: Sequence[int] = (),
    reads: bool = False,
    last: Last = here,
) -> Any:
    """Something read through a Transpose."""
    t = x.transpose(perm)
    dims = tuple(other)
    c = (np.arange(np.prod(dims, dtype=int)) + 1).astype(x.dtype).reshape(dims)
    y = last(lambda: {
        "add": lambda: t + c,
        "pad": lambda: jnp.pad(t, ((0, 1), (2, 0), (1, 1)), constant_values=3) + 1,
        "negative pad": lambda: jax.lax.pad(
            t, x.dtype.type(2), ((0, -1, 0), (1, 0, 0), (-1, 2, 0))
        ),
        "slice": lambda: t[1:, ::2, ::-1] * 2,
        "max": lambda: t.max(1) * 2,
        "sum": lambda: t.sum((0, -1), keepdims=True) * 2,
        "concat": lambda: jnp.concatenate([t, c + jnp.zeros_like(t)], 1) * 2,
        "split": lambda: t.reshape(*t.shape[:2], -1, 2) * 2,
        "join": lambda: t.reshape(-1, t.shape[-1]) * 2,
    }[then]())  # fmt: skip
    return (y, t) if reads else y


def reshaped(
    x: Array,
    dims: Sequence[int] = (12, 2),
    other: Sequence[int] = (),
    reads: bool = False,
    last: Last = here,
) -> Any:
    """Something added behind a Reshape."""
    view = x.reshape(tuple(dims))
    c = (np.arange(np.prod(other, dtype=int)) + 1).astype(x.dtype).reshape(tuple(other))
    y = last(lambda: jnp.exp(view * c))
    return (y, view) if reads else y


def kept(
    x: Array,
    axis: int = 1,
    back: int = 1,
    kind: str = "sum",
    reads: bool = False,
    last: Last = here,
) -> Any:
    """What was reduced, with an axis put back."""
    r = getattr(x, kind)(axis)
    y = last(lambda: x - jnp.expand_dims(jnp.exp(r * x.dtype.type(0.1)), back))
    return (y, r) if reads else y


def product(
    x: Array,
    y: Array,
    perm: tuple[int, ...] = (0, 2, 1),
    before: tuple[int, ...] = (0, 2, 1),
    reads: bool = False,
    last: Last = here,
) -> Any:
    """A product of transposed operands, transposed."""
    z = jnp.matmul(x.transpose(before), y.transpose(before))
    t = last(lambda: z.transpose(perm))
    return (t, z) if reads else t


FAMILIES: dict[str, Family] = {
    "neutral": Family("fold-identity-operand", neutral, [(4, 6)], {
        "by": [-1, a_ulp_more(1), 0.0, np.nan], "op": ["div", "add", "sub", "max", "min"],
        "side": [1], "dtype": FLOATS,
    }),
    "no sum": Family(
        "fold-identity-operand", functools.partial(neutral, by=-0.0, op="add"), [(4, 6)],
        {"side": [1]},
    ),
    "no difference": Family(
        "fold-identity-operand", functools.partial(neutral, by=0.0, op="sub"), [(4, 6)],
        {"side": [1]},
    ),
    "transposed": Family("sink-transpose", transposed, [(2, 3, 4)], {
        "perm": [(0, 1, 2), (2, 1, 0)], "reads": [True], "last": PLACES,
        "other": [(1, 4, 1), (3, 1, 2), (2, 3, 4, 2)], "shape": [(1, 3, 4), (0, 3, 4), (2, 1, 1)],
    }),
    **{
        f"{then} transposed": Family(rule, functools.partial(transposed, then=then), [(4, 2, 4)], {
            "perm": [(0, 1, 2), (2, 1, 0), (2, 0, 1)], "reads": [True],
        })
        for then, rule in {  # what reads it, and the rule
            "pad": "sink-transpose", "negative pad": "sink-transpose",
            "slice": "sink-transpose", "split": "sink-transpose",
            "max": "sink-transpose", "sum": "sink-transpose",
            "concat": "", "join": "",
        }.items()
    },
    "reshaped": Family("sink-reshape", reshaped, [(4, 6)], {
        "dims": [(4, 3, 2), (24,), (4, 1, 6), (1, 4, 6), (6, 4)],
        "other": [(12, 2), (1, 2), (12, 1), (3, 12, 2)], "reads": [True],
        "shape": [(2, 12), (24, 1)], "last": PLACES,
    }),
    "kept": Family("reduce-keepdims", kept, [(5, 5)], {
        "axis": [0], "back": [0], "kind": ["max", "min", "prod", "mean"], "reads": [True],
        "last": PLACES,
    }),
    "product": Family("matmul-transpose", product, [(3, 3, 3), (3, 3, 3)], {
        "perm": [(2, 1, 0), (1, 0, 2), (0, 1, 2)], "before": [(1, 0, 2), (2, 1, 0)],
        "reads": [True],
    }, special=False),
}  # fmt: skip


@pytest.mark.parametrize(("family", "name", "choice"), [*variants(FAMILIES)])
def test_near_misses(family: Family, name: str, choice: Any) -> None:
    check(family, name, choice)
