"""Near misses of softmax, of normalizations and of means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from near_misses import FLOATS, PLACES, Family, Last, a_ulp_more, check, here, variants

# -- softmax ----------------------------


def softmax(
    x: Array,
    highest: tuple[Any, bool] = (-1, True),
    total: tuple[Any, bool] = (-1, True),
    below: float = -np.inf,
    reads: str = "",
    last: Last = here,
) -> Any:
    """exp(x - max) / sum, the reductions over (axis, keepdims)."""
    top = jnp.max(x, highest[0], keepdims=highest[1], initial=below)
    e = jnp.exp(x - top)
    s = e.sum(total[0], keepdims=total[1])
    y = last(lambda: e / s)
    return {"": y, "e": (y, e), "sum": (y, s), "max": (top * 2, y)}[reads]


def log_softmax(
    x: Array,
    highest: tuple[Any, bool] = (-1, True),
    total: tuple[Any, bool] = (-1, True),
    base: float = 1.0,
    last: Last = here,
) -> Array:
    """s - log(sum(exp(s)))."""
    s = x - x.max(highest[0], keepdims=highest[1])
    t = jnp.exp(s).sum(total[0], keepdims=total[1]) * x.dtype.type(base)
    return last(lambda: s - jnp.log(t))


AXES = [((0, True)), ((-1, False)), ((0, False)), (((0, 1), True))]

# -- normalization ----------------------------


def layer_norm(
    x: Array,
    mean: tuple[Any, bool] = (-1, True),
    squares: tuple[Any, bool] = (-1, True),
    fast: bool = False,
    epsilon: Any = 1e-5,
    scale: Sequence[int] | None = None,
    bias: Sequence[int] | None = None,
    reads: str = "",
    last: Last = here,
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, over (axis, keepdims)."""
    m = x.mean(mean[0], keepdims=mean[1])
    if fast:
        v = jnp.maximum(0, (x * x).mean(squares[0], keepdims=squares[1]) - m * m)
    else:
        v = ((x - m) ** 2).mean(squares[0], keepdims=squares[1])
    y = last(lambda: (x - m) / jnp.sqrt(v + np.asarray(epsilon, x.dtype)))
    z = y
    for dims, put in ((scale, jnp.multiply), (bias, jnp.add)):
        if dims is not None:
            z = put(z, (np.arange(np.prod(dims)) + 1).astype(x.dtype).reshape(dims))
    return {"": z, "y": (z, y), "v": (z, v), "m": (z, m)}[reads]


def mean(
    x: Array,
    axis: Any = -1,
    keepdims: bool = True,
    terms: Any = 4,
    shape: Sequence[int] = (),
    reads: bool = False,
    last: Last = here,
) -> Any:
    """sum / terms."""
    s = x.sum(axis, keepdims=keepdims)
    y = last(lambda: s / np.full(shape, terms, x.dtype))
    return (y, s) if reads else y


FAMILIES: dict[str, Family] = {
    "softmax": Family("softmax", softmax, [(6, 6)], {
        "highest": AXES, "total": AXES, "below": [0.0, 1e9], "reads": ["e", "sum", "max"],
        "dtype": FLOATS, "shape": [(0, 4), (4, 0), (1, 6), (6, 1), (2, 3, 3)], "last": PLACES,
    }),
    "log_softmax": Family("log-softmax", log_softmax, [(6, 6)], {
        "highest": AXES, "total": AXES, "base": [a_ulp_more(1), 2.0],
        "dtype": FLOATS, "shape": [(0, 4), (1, 6)], "last": PLACES,
    }),
    "layer_norm": Family("layer-normalization", layer_norm, [(6, 6)], {
        "mean": AXES, "squares": AXES, "fast": [True], "epsilon": [0.0, -1e-3, np.inf],
        "scale": [(6,), (6, 1), (1, 6), (1, 1, 6), (1, 1, 1), (6, 6)],
        "bias": [(6,), (6, 1), (1, 1, 6), ()], "reads": ["y", "v", "m"],
        "dtype": FLOATS, "shape": [(0, 4), (1, 6), (6, 1), (3, 3, 3)], "last": PLACES,
    }),
    "mean": Family("reduce-mean", mean, [(4, 4)], {
        "axis": [0, (0, 1), (), None], "keepdims": [False], "terms": [a_ulp_more(4), 3, -4, 0],
        "shape": [(1,), (1, 1, 1), (4,)], "reads": [True], "dtype": FLOATS, "last": PLACES,
    }),
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize(("family", "name", "choice"), [*variants(FAMILIES)])
def test_near_misses(family: Family, name: str, choice: Any) -> None:
    check(family, name, choice)
