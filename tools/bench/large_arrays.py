"""Single operations on large arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import ndimage, special

from tools.bench.benchmark import Benchmark, Maker, floats, integers, row, uniform

Array = jax.Array
SIDE = 512
SUM = partial(jax.ops.segment_sum, num_segments=1000)
MAX = partial(jax.ops.segment_max, num_segments=1000)


def scatter_add(image: Array, i: Array, j: Array, values: Array) -> Array:
    """Scalars added at random places of an image."""
    return image.at[i, j].add(values)


def scatter_set(table: Array, i: Array, values: Array) -> Array:
    """Rows written in order; the last one that names a place stays."""
    return table.at[i].set(values)


def convolution(x: Array, kernel: Array) -> Array:
    """A convolution, NHWC."""
    form = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=form)


def special_functions(x: Array) -> Array:
    """gammaln, i0e and erfinv of one array."""
    return special.gammaln(1 + x) + special.i0e(x) + special.erfinv(x)


def interpolation(image: Array, places: Array) -> Array:
    """Linear interpolation of an image."""
    return ndimage.map_coordinates(image, places, 1)


def segments(rows: int) -> tuple[Maker, ...]:
    """Make rows, and the segment of each."""
    return floats(rows, 16), integers(0, 1000, rows)


def places(count: int) -> tuple[Maker, ...]:
    """Make a row and a column of the image for each of so many scalars."""
    return integers(0, SIDE, count), integers(0, SIDE, count, seed=2)


IMAGE, KEY = floats(SIDE, SIDE), lambda: jax.random.PRNGKey(0)
BENCHMARKS: Mapping[str, Benchmark] = {
    "segment_sum_10k": row("segment_sum of 10⁴ × 16", 1.5, SUM, *segments(10**4)),
    "segment_sum_100k": row("segment_sum of 10⁵ × 16", 1.0, SUM, *segments(10**5)),
    "segment_sum_1m": row("segment_sum of 10⁶ × 16", 0.4, SUM, *segments(10**6)),
    "segment_max_100k": row("segment_max of 10⁵ × 16", 2.0, MAX, *segments(10**5)),
    "scatter_add_100k": row("10⁵ scalars added to 512²", 2.0, scatter_add,
                            IMAGE, *places(10**5), floats(10**5)),
    "scatter_add_1m": row("10⁶ scalars added to 512²", 2.0, scatter_add,
                          IMAGE, *places(10**6), floats(10**6)),
    "scatter_set_100k": row("10⁵ × 16 written in order", 1.5, scatter_set,
                            floats(1000, 16), *segments(10**5)[::-1]),
    "bincount_1m": row("bincount of 10⁶", 3.0, partial(jnp.bincount, length=1000),
                       integers(0, 1000, 10**6)),
    "histogram_100k": row("histogram of 10⁵", 3.0, lambda x: jnp.histogram(x, 100, (-4, 4)),
                          floats(10**5)),
    "unique_100k": row("unique of 10⁵", 1.0, lambda x: jnp.unique(x, size=1000, fill_value=0),
                       integers(0, 1000, 10**5)),
    "gather_pairs_1m": row("10⁶ pairs gathered from 512²", 2.0, lambda x, i, j: x[i, j],
                           IMAGE, *places(10**6)),
    "map_coordinates_1m": row("map_coordinates of 10⁶", 3.0, interpolation,
                              IMAGE, uniform(SIDE - 1, 2, 10**6)),
    "interp_1m": row("interp of 10⁶", 2.0, jnp.interp,
                     uniform(1, 10**6), lambda: np.linspace(0, 1, 1000, dtype="f4"), floats(1000)),
    "sort_1m": row("sort of 10⁶ i32", 1.5, jnp.sort, integers(-(2**31), 2**31, 10**6, seed=0)),
    "matmul_i32_256": row("i32 matmul, 256²", 1.5, jnp.matmul,
                          integers(0, 1000, 256, 256), integers(0, 1000, 256, 256, seed=2)),
    "rfft2_512": row("rfft2 of 512²", 1.3, jnp.fft.rfft2, IMAGE),
    "rfft2_1000": row("rfft2 of 1,000²", 1.3, jnp.fft.rfft2, floats(1000, 1000)),
    "matvecs_10k": row("10⁴ products of 8 × 8 and 8", 1.0, partial(jnp.einsum, "bij,bj->bi"),
                       floats(10**4, 8, 8), floats(10**4, 8)),
    "convolution_56": row("3 × 3 convolution, NHWC, 56² × 64", 1.1, convolution,
                          floats(1, 56, 56, 64), floats(3, 3, 64, 64)),
    "special_100k": row("gammaln, i0e, erfinv of 10⁵", 4.0, special_functions,
                        uniform(1, 10**5, seed=0)),
    "uniform_1m": row("uniform, 10⁶", 2.5, partial(jax.random.uniform, shape=(10**6,)), KEY),
    "normal_1m": row("normal, 10⁶", 2.5, partial(jax.random.normal, shape=(10**6,)), KEY),
    "gamma_100k": row("gamma, 10⁵", 3.0, partial(jax.random.gamma, a=2.5, shape=(10**5,)), KEY),
}  # fmt: skip
