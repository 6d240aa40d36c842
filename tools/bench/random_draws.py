"""Few random numbers, as samplers and environments draw them in each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from tools.bench.benchmark import Benchmark, row

Array = jax.Array


def split_and_draw(key: Array) -> Any:
    """A step of an environment: a key of its own for each of two draws."""
    key, first, second = random.split(key, 3)
    return key, random.uniform(first, (8,)), random.normal(second, (8,))


def walk(key: Array) -> Array:
    """A loop that ends by what it draws, 100 steps at most."""

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        key, count, x = state
        key, part = random.split(key)
        return key, count + 1, x + random.normal(part, (4,))

    start = (key, jnp.int32(0), jnp.zeros(4))
    return lax.while_loop(lambda s: (s[1] < 100) & (abs(s[2][0]) < 1e3), step, start)[2]


BENCHMARKS: Mapping[str, Benchmark] = {
    name: row(title, None, function, lambda: random.PRNGKey(0))
    for name, title, function in (
        ("split", "split", random.split),
        ("fold_in", "fold_in", lambda key: random.fold_in(key, 3)),
        ("uniform_8", "uniform, 8", lambda key: random.uniform(key, (8,))),
        ("normal_8", "normal, 8", lambda key: random.normal(key, (8,))),
        ("randint_8", "randint, 8", lambda key: random.randint(key, (8,), 0, 10)),
        ("bernoulli", "bernoulli", random.bernoulli),
        (
            "categorical_8",
            "categorical of 8",
            lambda key: random.categorical(key, jnp.arange(8.0)),
        ),
        ("choice_10", "choice from 10", lambda key: random.choice(key, 10)),
        ("permutation_10", "permutation of 10", lambda key: random.permutation(key, 10)),
        ("gamma_8", "gamma, 8", lambda key: random.gamma(key, 2.5, (8,))),
        ("poisson_8", "poisson, 8", lambda key: random.poisson(key, 2.5, (8,))),
        ("split_and_draw", "split, uniform and normal of 8", split_and_draw),
        ("walk_100", "100 steps: split, normal of 4", walk),
    )
}
