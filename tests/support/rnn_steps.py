"""Steps of LSTM and GRU cells in JAX, and the operators of models that scan them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.nn import sigmoid
from verified import nodes as verified_nodes

RNG = np.random.default_rng(0)
TRIPS, BATCH, INPUTS, WIDTH = 6, 3, 5, 4
X = RNG.normal(size=(TRIPS, BATCH, INPUTS)).astype(np.float32)
H = RNG.normal(size=(BATCH, WIDTH)).astype(np.float32)
C = RNG.normal(size=(BATCH, WIDTH)).astype(np.float32)
W = RNG.normal(size=(INPUTS, 4 * WIDTH)).astype(np.float32)
R = RNG.normal(size=(WIDTH, 4 * WIDTH)).astype(np.float32)
B = RNG.normal(size=4 * WIDTH).astype(np.float32)
B2 = RNG.normal(size=4 * WIDTH).astype(np.float32)

Step = Callable[[Any, Any], Any]


def nodes(function: Callable[..., Any], *args: Any, **options: Any) -> Counter[str]:
    """The operators of a function's model, after a comparison with XLA."""
    without = {"loop-to-scan", "loop-unroll", *options.pop("without", ())}
    return verified_nodes(function, *args, without=without, **options)


def scanned(step: Step, state: Any = (H, C), **options: Any) -> Callable[[jax.Array], Any]:
    def function(x: jax.Array) -> Any:
        return lax.scan(step, jax.tree.map(jnp.asarray, state), x, **options)

    return function


# -- LSTM -----------------------------------------------------------------------------------------


def lstm(gates: Callable[[Any, Any], Any], order: str = "ifgo", forget: float = 0.0) -> Step:
    """A step of an LSTM with its gates in this order along the last axis."""

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        part = dict(zip(order, jnp.split(gates(h, x), 4, axis=-1), strict=True))
        c = sigmoid(part["f"] + forget) * c + sigmoid(part["i"]) * jnp.tanh(part["g"])
        h = sigmoid(part["o"]) * jnp.tanh(c)
        return (h, c), h

    return step


GATES: dict[str, Callable[[Any, Any], Any]] = {
    "one-bias": lambda h, x: x @ W + h @ R + B,
    "two-biases": lambda h, x: (x @ W + B) + (h @ R + B2),
    "no-bias": lambda h, x: h @ R + x @ W,
    "subtracted": lambda h, x: x @ W - h @ R - B,
    "weights-from-the-left": lambda h, x: (W.T @ x.T + R.T @ h.T + B[:, None]).T,
    "joined": lambda h, x: jnp.concatenate([x, h], -1) @ jnp.concatenate([W, R]) + B,
    "joined-the-other-way": lambda h, x: jnp.concatenate([h, x], -1) @ np.concatenate([R, W]),
    "some-inputs": lambda h, x: x[:, 1:4] @ W[:3] + h @ R,
    "scalar-bias": lambda h, x: x @ W + h @ R + 0.5,
    "a-matrix-each": lambda h, x: jnp.concatenate(
        [
            x @ W[:, k : k + WIDTH] + B[k : k + WIDTH] + h @ R[:, k : k + WIDTH]
            for k in (0, 4, 8, 12)
        ],
        -1,
    ),
}


# -- GRU ------------------------------------------------------------------------------------------

G = 3 * WIDTH
MIXED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "torch": lambda z, n, h: (1 - z) * n + z * h,
    "other-order": lambda z, n, h: h * z + n * (1 - z),
    "haiku": lambda z, n, h: (1 - z) * h + z * n,
    "equinox": lambda z, n, h: n + z * (h - n),
    "towards-new": lambda z, n, h: h + z * (n - h),
}


def gru(mix: Callable[[Any, Any, Any], Any], after: bool, joint: bool = False) -> Step:
    """A step of a GRU with the reset gate before or after the product."""

    def step(h: Any, x: jax.Array) -> Any:
        given = x @ W[:, :G] + B[:G]
        if joint:  # one activation for both gates, then a split
            both = sigmoid(given[:, : 2 * WIDTH] + h @ R[:, : 2 * WIDTH])
            z, r = jnp.split(both, 2, axis=-1)
        else:
            z = sigmoid(given[:, :WIDTH] + h @ R[:, :WIDTH])
            r = sigmoid(given[:, WIDTH : 2 * WIDTH] + h @ R[:, WIDTH : 2 * WIDTH])
        last, bias = R[:, 2 * WIDTH : G], B2[:WIDTH]
        product = r * (h @ last + bias) if after else (r * h) @ last + bias
        h = mix(z, jnp.tanh(given[:, 2 * WIDTH :] + product), h)
        return h, h

    return step
