"""The groups whose growth is measured: for each, a program of a given number of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp

from tools.bench.groups import large_arrays
from tools.bench.groups.case import Built

WIDTH = 16


def elementwise(count: int) -> Built:
    """A few functions of each element."""
    return lambda x: jnp.exp(-x * x) * jnp.tanh(x) + 1, (large_arrays.floats(count),)


def segment_sum(count: int) -> Built:
    """Rows of 16 numbers summed in 1,000 segments."""
    return large_arrays.segments(jax.ops.segment_sum, max(count // WIDTH, 1), WIDTH)


def rfft2(count: int) -> Built:
    """The Fourier transform of a square image of about so many pixels."""
    return large_arrays.rfft2(2 ** round(math.log2(math.sqrt(count))))


GROUPS: Mapping[str, Callable[[int], Built]] = {
    "elementwise": elementwise,
    "gather": large_arrays.gather_pairs,
    "scatter": segment_sum,
    "sort": large_arrays.sort,
    "random": partial(large_arrays.draw, jax.random.normal),
    "fft": rfft2,
    "special functions": large_arrays.special_functions,
}
"""By the name in the picture. The first one is the baseline."""
