"""jax.random in the graph, the key being data: XLA's integers, and its floats but for roundings.

Each program is translated once and run with several keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import random
from scipy import special

import hlo2onnx

Draw = Callable[[Any], Any]

SEEDS = np.array([[0, 0], [0, 1234], [0xFFFFFFFF, 0xFFFFFFFF]], np.uint32)
ODDS = np.array([0.1, 0.2, 0.3, 0.15, 0.25], np.float32)
LOGITS = np.log(np.arange(1, 25, dtype=np.float32)).reshape(4, 6)
ROWS = np.arange(40).reshape(8, 5)
SHAPES_OF_GAMMA = np.array([0.3, 1.0, 2.5, 30.0], np.float32)


def runs(draw: Draw, impl: str = "threefry2x32") -> list[tuple[np.ndarray, np.ndarray]]:
    """What ONNX Runtime and XLA give for each key."""

    def program(words: jax.Array) -> jax.Array:
        drawn = draw(random.wrap_key_data(words, impl=impl))
        is_key = jnp.issubdtype(drawn.dtype, jax.dtypes.prng_key)
        return random.key_data(drawn) if is_key else drawn

    keys = SEEDS if impl == "threefry2x32" else np.concatenate([SEEDS, SEEDS[::-1]], 1)
    lowered = jax.jit(program).lower(keys[0])
    translated, compiled = hlo2onnx.translate(lowered), lowered.compile()
    return [(np.asarray(translated(key)), np.asarray(compiled(key))) for key in keys]


def ulps(got: np.ndarray, want: np.ndarray, scale: float = 0.0) -> float:
    """The largest difference in units in the last place of `want`, or of `scale` if larger."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind == "c":
        return max(ulps(got.real, want.real, scale), ulps(got.imag, want.imag, scale))
    info = ml_dtypes.finfo(want.dtype)
    wide = want.astype(np.float64)
    size = np.maximum(np.maximum(abs(wide), scale), float(info.smallest_normal))
    unit = np.exp2(np.floor(np.log2(size)) - info.nmant)
    return float((abs(got.astype(np.float64) - wide) / unit).max(initial=0))


# -- integers --------------------------------------------------------------------------------------

EXACT: dict[str, Draw] = {
    "bits of 32": lambda key: random.bits(key, (7, 5)),
    "bits of 16": lambda key: random.bits(key, (7,), jnp.uint16),
    "bits of 8": lambda key: random.bits(key, (3, 0, 2), jnp.uint8),
    "one number": lambda key: random.bits(key),
    "randint": lambda key: random.randint(key, (40,), -3, 1_000_003),
    "randint of 8 bits": lambda key: random.randint(key, (40,), -128, 127, jnp.int8),
    "bernoulli": lambda key: random.bernoulli(key, 0.3, (40,)),
    "categorical": lambda key: random.categorical(key, LOGITS),
    "categorical without replacement": lambda key: random.categorical(
        key, LOGITS[0], shape=(4,), replace=False
    ),
    "permutation": lambda key: random.permutation(key, 50),
    "permutation of rows": lambda key: random.permutation(key, ROWS.astype(np.float32)),
    "permutation within rows": lambda key: random.permutation(key, ROWS, axis=1, independent=True),
    "choice": lambda key: random.choice(key, 20, (7,)),
    "choice without replacement": lambda key: random.choice(key, 20, (7,), replace=False),
    "choice by odds": lambda key: random.choice(key, 5, (7,), p=ODDS),
    "choice by odds without replacement": lambda key: random.choice(
        key, 5, (3,), replace=False, p=ODDS
    ),
    "split": lambda key: random.split(key, (2, 3)),
    "fold_in": lambda key: random.fold_in(key, 17),
    "draws in a loop": lambda key: jax.lax.scan(
        lambda key, _: (random.split(key)[0], random.bits(key, (3,))), key, length=4
    )[1],
    "draws of many keys": lambda key: jax.vmap(random.bits)(random.split(key, 5)),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", EXACT)
def test_integers(name: str) -> None:
    for got, want in runs(EXACT[name]):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.costly
@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
@pytest.mark.parametrize(
    "name", ["bits of 32", "bits of 16", "categorical", "split", "fold_in", "draws of many keys"]
)  # fmt: skip
def test_integers_of_other_keys(name: str, impl: str) -> None:
    for got, want in runs(EXACT[name], impl):
        np.testing.assert_array_equal(got, want)


@pytest.mark.wide
@pytest.mark.parametrize(
    "draw",
    [
        lambda key: random.poisson(key, jnp.array([0.3, 2.5, 300.0]), (40, 3)),
        lambda key: random.binomial(key, 10, 0.3, (30,)),
        lambda key: random.geometric(key, 0.3, (50,)),
    ],
    ids=["poisson", "binomial", "geometric"],
)
def test_counts(draw: Draw) -> None:
    for got, want in runs(draw):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: random.bits(key, (7, 3), jnp.uint64),
        lambda key: random.randint(key, (40,), -(2**40), 2**50),
        lambda key: random.uniform(key, (100,)),
    ],
    ids=["bits", "randint", "uniform"],
)
def test_of_64_bits(draw: Draw) -> None:
    with jax.enable_x64(True):
        for got, want in runs(draw):
            assert got.dtype.itemsize == 8
            np.testing.assert_array_equal(got, want)


# -- floats ----------------------------------------------------------------------------------------


class Floats(NamedTuple):
    """A draw, and how far from XLA it may be.

    Attributes:
        limit: In ULP.
        scale: The size of numbers that smaller ones are differences of.
    """

    draw: Draw
    limit: float = 2
    scale: float = 0.0


FLOATS = {
    "uniform": Floats(lambda key: random.uniform(key, (40, 50)), 0),
    "uniform f16": Floats(lambda key: random.uniform(key, (300,), jnp.float16), 0),
    "uniform bf16": Floats(lambda key: random.uniform(key, (300,), jnp.bfloat16), 0),
    "uniform of an interval": Floats(
        lambda key: random.uniform(key, (2000,), minval=-3.0, maxval=2.3), 1
    ),
    "normal": Floats(lambda key: random.normal(key, (2000,)), 3),
    "normal f16": Floats(lambda key: random.normal(key, (300,), jnp.float16)),
    "normal bf16": Floats(lambda key: random.normal(key, (300,), jnp.bfloat16)),
    "normal complex": Floats(lambda key: random.normal(key, (300,), jnp.complex64), 4),
    "truncated_normal": Floats(lambda key: random.truncated_normal(key, -1.0, 2.0, (2000,)), 3),
    "exponential": Floats(lambda key: random.exponential(key, (2000,)), 2, 1.0),
    "laplace": Floats(lambda key: random.laplace(key, (2000,)), 2, 1.0),
    "gumbel": Floats(lambda key: random.gumbel(key, (2000,)), 3, 1.0),
    "gamma": Floats(lambda key: random.gamma(key, SHAPES_OF_GAMMA, (80, 4)), 12, 0.3),
    "beta": Floats(lambda key: random.beta(key, SHAPES_OF_GAMMA, 2.0, (80, 4)), 4, 1.0),
}
"""Gamma's numbers are (1 + c x)^3 of a normal x, whose last unit is multiplied where this is small:
XLA's error is as large. Normal numbers are those of erf_inv in f32, without XLA's FMA. Gumbel's
numbers, which are logarithms, pass zero."""


@pytest.mark.costly
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.wide] if name == "beta" else []) for name in FLOATS],
)
def test_floats(name: str) -> None:
    draw, limit, scale = FLOATS[name]
    for got, want in runs(draw):
        assert ulps(got, want, scale) <= limit


@pytest.mark.wide
@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_floats_of_other_keys(name: str) -> None:
    draw, limit, scale = FLOATS[name]
    for got, want in runs(draw, "rbg"):
        assert ulps(got, want, scale) <= limit


@pytest.mark.wide
def test_normal_of_f64() -> None:
    """XLA's logarithm of f64 is quick, and its normal numbers off by 25 ULP: ours may not be."""
    with jax.enable_x64(True):
        low = np.nextafter(-1.0, 0.0)
        below = runs(lambda key: random.uniform(key, (2000,), minval=low, maxval=1.0))
        for (got, want), (uniform, _) in zip(
            runs(lambda key: random.normal(key, (2000,))), below, strict=True
        ):
            truth = 2**0.5 * special.erfinv(uniform)
            error, allowed = (abs((x - truth) / truth).max() for x in (got, want))
            assert error <= 2 * allowed
