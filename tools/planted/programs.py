"""The programs that faults are planted in: some of the examples, and small ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Program = tuple[Callable[..., Any], tuple[Any, ...]]

EXAMPLES = ("mlp", "resnet18", "decoder", "lstm", "switch", "navier_stokes", "train_step")


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([71, seed]).standard_normal(shape).astype(np.float32)


def newton() -> Program:
    """A while loop whose count of trips depends on its input."""

    def step(x: jax.Array, a: jax.Array) -> jax.Array:
        return x - 0.7 * (jnp.sin(x) * x - a) / (jnp.abs(jnp.cos(x) * x) + 1.0)

    def function(a: jax.Array) -> tuple[jax.Array, jax.Array]:
        def body(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            count, x = state
            return count + 1, step(x, a)

        def going(state: tuple[jax.Array, jax.Array]) -> jax.Array:
            count, x = state
            return (count < 40) & (jnp.max(jnp.abs(step(x, a) - x)) > 1e-3)

        count, x = jax.lax.while_loop(going, body, (0, jnp.ones_like(a)))
        return count, jnp.exp(-x * x) + jnp.tanh(a)

    return function, (_random(6) * 0.3,)


def half() -> Program:
    """Attention in bfloat16."""

    def function(x: jax.Array, w: jax.Array) -> jax.Array:
        x, w = x.astype(jnp.bfloat16), w.astype(jnp.bfloat16)
        query, key = jnp.tanh(x @ w), jax.nn.gelu(x @ w.T)
        scores = jax.nn.softmax(query @ key.T / 3.0, axis=-1)
        mixed = scores @ jnp.maximum(x, -1.0)
        return (mixed * jax.nn.sigmoid(x) - 0.25).astype(jnp.float32)

    return function, (_random(8, 16), _random(16, 16, seed=1))


def waves() -> Program:
    """Complex numbers: a Fourier transform, phases and products."""

    def function(x: jax.Array, angle: jax.Array) -> tuple[jax.Array, jax.Array]:
        spectrum = jnp.fft.fft(x * jnp.exp(1j * angle))
        moved = spectrum * (0.5 - 2.0j) + jnp.conj(spectrum)
        power = jnp.abs(moved) ** 2 + jnp.angle(spectrum)
        return jnp.fft.ifft(moved / (2.0 + power)), jnp.log1p(power)

    x = (_random(4, 8) + 1j * _random(4, 8, seed=1)).astype(np.complex64)
    return function, (x, _random(8, seed=2))


def branches_in_scan() -> Program:
    """Branches within a loop."""

    def function(x: jax.Array, steps: jax.Array) -> tuple[jax.Array, jax.Array]:
        def one(c: jax.Array) -> jax.Array:
            return jnp.sin(c) * 2.0 + x

        def two(c: jax.Array) -> jax.Array:
            return jnp.sqrt(jnp.abs(c)) - 0.5 * x

        def three(c: jax.Array) -> jax.Array:
            return jnp.minimum(c * 0.9, 1.0)

        def body(c: jax.Array, step: jax.Array) -> tuple[jax.Array, jax.Array]:
            c = jax.lax.switch(step, [one, two, three], c)
            return c, jnp.sum(jnp.exp(-c * c))

        return jax.lax.scan(body, x, steps)

    return function, (_random(5), np.array([0, 1, 2, 1, 0, 2] * 4, np.int32))


def loop_in_loop() -> Program:
    """A loop of many trips in a loop of unknown count."""

    def function(x: jax.Array) -> jax.Array:
        def inner(k: jax.Array, c: jax.Array) -> jax.Array:
            return jnp.where(k % 2 == 0, jnp.cos(c) + x[k], c * jnp.float32(0.5) - x[k])

        def body(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            count, total, c = state
            c = jax.lax.fori_loop(0, 24, inner, c)
            return count + 1, total + jnp.sum(jnp.abs(c)), jnp.tanh(c) * jnp.float32(1.5)

        def going(state: tuple[jax.Array, ...]) -> jax.Array:
            return (state[1] < 9.0) & (state[0] < 12)  # a fault must not make it endless

        _, total, c = jax.lax.while_loop(going, body, (0, jnp.float32(0.0), x[0]))
        return total * c

    return function, (_random(24, 3),)


OWN = {
    "newton": newton,
    "half": half,
    "waves": waves,
    "branches_in_scan": branches_in_scan,
    "loop_in_loop": loop_in_loop,
}

NAMES = (*EXAMPLES, *OWN)


def built(name: str) -> tuple[Program, AbstractContextManager[Any]]:
    """A program, and the context in which to trace it."""
    if name in OWN:
        return OWN[name](), nullcontext()
    folder = str(Path(__file__).parents[2] / "examples")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    import gallery

    (example,) = [item for item in gallery.load_all() if item.name == name]
    with example.types():
        return example.build(**example.small), example.types()
