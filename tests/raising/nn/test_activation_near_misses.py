"""Near misses of activations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from near_misses import ELEMENTWISE, PLACES, Family, Last, a_ulp_more, check, here, variants

ROOT = float(np.sqrt(0.5))


def gelu(x: Array, half: Any = 0.5, root: Any = ROOT, one: Any = 1.0, last: Last = here) -> Array:
    """0.5 x (1 + erf(x / sqrt 2))."""
    half, root, one = (np.asarray(item, x.dtype) for item in (half, root, one))
    erf = jax.lax.erf(x * root)
    return last(lambda: half * x * (one + erf))


def elu(x: Array, alpha: Any = 1.0, test: Any = 0.0, last: Last = here) -> Array:
    """where(x > 0, x, alpha expm1(where(x > 0, 0, x)))."""
    above = x > np.asarray(test, x.dtype)
    return last(
        lambda: jnp.where(above, x, np.asarray(alpha, x.dtype) * jnp.expm1(jnp.where(above, 0, x)))
    )


def leaky_relu(
    x: Array, alpha: Any = 0.1, test: Any = 0.0, strict: bool = False, last: Last = here
) -> Array:
    """where(x >= 0, x, alpha x)."""
    above = x > np.asarray(test, x.dtype) if strict else x >= np.asarray(test, x.dtype)
    return last(lambda: jnp.where(above, x, np.asarray(alpha, x.dtype) * x))


def hard_sigmoid(
    x: Array, low: Any = 0.0, high: Any = 6.0, shift: Any = 3.0, by: Any = 6.0, last: Last = here
) -> Array:
    """min(max(x + 3, 0), 6) / 6."""
    low, high, shift, by = (np.asarray(item, x.dtype) for item in (low, high, shift, by))
    y = jnp.minimum(jnp.maximum(x + shift, low), high)
    return last(lambda: y / by)


def softsign(x: Array, one: Any = 1.0, last: Last = here) -> Array:
    """x / (1 + |x|)."""
    y = np.asarray(one, x.dtype) + jnp.abs(x)
    return last(lambda: x / y)


SIGMOID_READERS: dict[str, Callable[[Array, Array], Array]] = {
    "logarithm of a sum": lambda p, x: jnp.log(p + x.dtype.type(1e-10)),
    "logarithm of a mean": lambda p, x: jnp.log(p.mean(-1)),
    "logarithm of both": lambda p, x: jnp.log(p + jax.nn.sigmoid(x - 1)),
    "logarithm of a product": lambda p, x: jnp.log(p @ np.ones((x.shape[-1], 2), x.dtype)),
    "logarithm of a scaled one": lambda p, x: jnp.log(p * x.dtype.type(0.5)),
    "quotient": lambda p, x: p / p.sum(-1, keepdims=True),
    "root": lambda p, x: jnp.sqrt(p[1:]),
}
GATES: dict[str, Callable[[Array, Array], Array]] = {
    "gate": lambda p, x: p * x,
    "another's gate": lambda p, x: (1 - p) * x,
    "sum": lambda p, x: p + 1,
}


def sigmoid(x: Array, reader: str = "gate", last: Last = here) -> Array:
    """What reads a logistic function; of numbers about -20 where it should be exact."""
    p = 1 / (1 + jnp.exp(-(x if reader in GATES else x - 20)))
    return last(lambda: (GATES | SIGMOID_READERS)[reader](p, x))


RELU_READERS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": lambda y, x: y + 1,
    "divisor": lambda y, x: 1 / y,
    "divisor of a product": lambda y, x: 1 / (y * x),
    "divisor of the largest": lambda y, x: 1 / (y * 1).max(-1),
    "bits": lambda y, x: jax.lax.bitcast_convert_type(y, jnp.int32),
    "reshaped divisor": lambda y, x: 1 / y.reshape(-1),
    "angle": lambda y, x: jnp.arctan2(y, -jnp.ones_like(x)),
}


def relu(
    x: Array, low: Any = 0.0, high: Any = None, reader: str = "sum", last: Last = here
) -> Array:
    """max(x, 0), or min(max(x, 0), high)."""
    y = jnp.maximum(x, np.asarray(low, x.dtype))
    y = y if high is None else jnp.minimum(y, np.asarray(high, x.dtype))
    return last(lambda: RELU_READERS[reader](y, x))


FAMILIES: dict[str, Family] = {
    "gelu": Family("activations", gelu, [(4, 6)], {
        "half": [a_ulp_more(0.5), 0.51], "root": [a_ulp_more(ROOT), 0.7], "one": [-1.0],
        **ELEMENTWISE,
    }),
    "elu": Family("activations", elu, [(4, 6)], {
        "alpha": [0.5, -0.0, np.nan, np.inf], "test": [-0.0, 1e-30, np.nan], **ELEMENTWISE,
    }),
    "leaky_relu": Family("activations", leaky_relu, [(4, 6)], {
        "alpha": [-0.0, 2.0, np.nan, np.inf], "test": [-0.0, 1e-30], "strict": [True],
        **ELEMENTWISE,
    }),
    "hard_sigmoid": Family("activations", hard_sigmoid, [(4, 6)], {
        "low": [-0.0, a_ulp_more(0)], "high": [a_ulp_more(6), 5.9], "shift": [a_ulp_more(3), 2.5],
        "by": [a_ulp_more(6), 3], **ELEMENTWISE,
    }),
    "softsign": Family("activations", softsign, [(4, 6)], {
        "one": [a_ulp_more(1), 2, -1], **ELEMENTWISE,
    }),
    "sigmoid": Family("sigmoid", sigmoid, [(4, 6)], {
        "reader": [*GATES, *SIGMOID_READERS], "dtype": ["float16"], "last": PLACES,
    }),
    "relu": Family("relu", relu, [(4, 6)], {
        "reader": [*RELU_READERS], "low": [-0.0, a_ulp_more(0)], "last": PLACES,
    }),
    "clip": Family("min-max-to-clip", functools.partial(relu, high=6.0), [(4, 6)], {
        "reader": [*RELU_READERS], "low": [-0.0, 7.0, np.nan, -1.0], "high": [0.0, -0.0, np.inf],
    }),
}  # fmt: skip


@pytest.mark.parametrize(("family", "name", "choice"), [*variants(FAMILIES)])
def test_near_misses(family: Family, name: str, choice: Any) -> None:
    check(family, name, choice)
