"""Single operations on large arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import ndimage, special

from tools.bench.benchmark import Benchmark, Built

Array = jax.Array
SIDE = 512


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal f32 numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def integers(high: int, *shape: int, seed: int = 1) -> np.ndarray:
    """i32 numbers in [0, high)."""
    return np.random.default_rng(seed).integers(0, high, shape).astype(np.int32)


def segments(reduction: Callable[..., Array], rows: int, width: int = 16) -> Built:
    """Rows reduced into 1,000 segments."""
    return partial(reduction, num_segments=1000), (floats(rows, width), integers(1000, rows))


def scatter_add(count: int) -> Built:
    """Scalars added at random places of an image."""

    def add(image: Array, i: Array, j: Array, values: Array) -> Array:
        return image.at[i, j].add(values)

    places = (integers(SIDE, count), integers(SIDE, count, seed=2))
    return add, (floats(SIDE, SIDE), *places, floats(count))


def scatter_set(rows: int) -> Built:
    """Rows written in order; the last one that names a place stays."""

    def write(table: Array, i: Array, values: Array) -> Array:
        return table.at[i].set(values)

    return write, (floats(1000, 16), integers(1000, rows), floats(rows, 16))


def bincount(count: int) -> Built:
    """Integers counted in 1,000 bins."""
    return partial(jnp.bincount, length=1000), (integers(1000, count),)


def histogram(count: int) -> Built:
    """Floats counted in 100 bins."""
    return lambda x: jnp.histogram(x, 100, (-4, 4)), (floats(count),)


def unique(count: int) -> Built:
    """The distinct values of integers."""
    return lambda x: jnp.unique(x, size=1000, fill_value=0), (integers(1000, count),)


def gather_pairs(count: int) -> Built:
    """Scalars at random places of an image."""
    places = (integers(SIDE, count), integers(SIDE, count, seed=2))
    return lambda image, i, j: image[i, j], (floats(SIDE, SIDE), *places)


def map_coordinates(count: int) -> Built:
    """Linear interpolation of an image."""
    places = np.random.default_rng(3).uniform(0, SIDE - 1, (2, count)).astype(np.float32)
    return lambda x, places: ndimage.map_coordinates(x, places, 1), (floats(SIDE, SIDE), places)


def interp(count: int) -> Built:
    """Linear interpolation of a curve of 1,000 points."""
    known = np.linspace(0, 1, 1000).astype(np.float32)
    at = np.random.default_rng(3).uniform(0, 1, count).astype(np.float32)
    return jnp.interp, (at, known, floats(1000))


def sort(count: int) -> Built:
    """Integers in order."""
    return jnp.sort, (np.random.default_rng(0).integers(-(2**31), 2**31, count).astype(np.int32),)


def matmul_of_integers(size: int) -> Built:
    """A product of i32 matrices."""
    return jnp.matmul, (integers(1000, size, size), integers(1000, size, size, seed=2))


def rfft2(size: int) -> Built:
    """The Fourier transform of a real image."""
    return jnp.fft.rfft2, (floats(size, size),)


def draw(sampler: Callable[..., Array], count: int) -> Built:
    """Random numbers of one key."""
    return lambda key: sampler(key, shape=(count,)), (jax.random.PRNGKey(0),)


def matvecs(count: int) -> Built:
    """Products of 8 × 8 matrices and vectors."""
    return lambda a, x: jnp.einsum("bij,bj->bi", a, x), (floats(count, 8, 8), floats(count, 8))


def convolution(size: int) -> Built:
    """A 3 × 3 convolution of 64 channels, NHWC."""

    def convolve(x: Array, kernel: Array) -> Array:
        form = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=form)

    return convolve, (floats(1, size, size, 64), floats(3, 3, 64, 64))


def special_functions(count: int) -> Built:
    """gammaln, i0e and erfinv of one array."""

    def values(x: Array) -> Array:
        return special.gammaln(1 + x) + special.i0e(x) + special.erfinv(x)

    return values, (np.random.default_rng(0).uniform(0, 1, count).astype(np.float32),)


_SEGMENTS = {
    "segment_sum_10k": Benchmark(
        "segment_sum of 10⁴ × 16", partial(segments, jax.ops.segment_sum, 10**4), 1.5
    ),
    "segment_sum_100k": Benchmark(
        "segment_sum of 10⁵ × 16", partial(segments, jax.ops.segment_sum, 10**5), 1.0
    ),
    "segment_sum_1m": Benchmark(
        "segment_sum of 10⁶ × 16", partial(segments, jax.ops.segment_sum, 10**6), 0.4
    ),
    "segment_max_100k": Benchmark(
        "segment_max of 10⁵ × 16", partial(segments, jax.ops.segment_max, 10**5), 2.0
    ),
}
_SCATTERS = {
    "scatter_add_100k": Benchmark("10⁵ scalars added to 512²", partial(scatter_add, 10**5), 2.0),
    "scatter_add_1m": Benchmark("10⁶ scalars added to 512²", partial(scatter_add, 10**6), 2.0),
    "scatter_set_100k": Benchmark("10⁵ × 16 written in order", partial(scatter_set, 10**5), 1.5),
    "bincount_1m": Benchmark("bincount of 10⁶", partial(bincount, 10**6), 3.0),
    "histogram_100k": Benchmark("histogram of 10⁵", partial(histogram, 10**5), 3.0),
    "unique_100k": Benchmark("unique of 10⁵", partial(unique, 10**5), 1.0),
}
_GATHERS = {
    "gather_pairs_1m": Benchmark("10⁶ pairs gathered from 512²", partial(gather_pairs, 10**6), 2.0),
    "map_coordinates_1m": Benchmark("map_coordinates of 10⁶", partial(map_coordinates, 10**6), 3.0),
    "interp_1m": Benchmark("interp of 10⁶", partial(interp, 10**6), 2.0),
    "sort_1m": Benchmark("sort of 10⁶ i32", partial(sort, 10**6), 1.5),
}
_ARITHMETIC = {
    "matmul_i32_256": Benchmark("i32 matmul, 256²", partial(matmul_of_integers, 256), 1.5),
    "rfft2_512": Benchmark("rfft2 of 512²", partial(rfft2, 512), 1.3),
    "rfft2_1000": Benchmark("rfft2 of 1,000²", partial(rfft2, 1000), 1.3),
    "matvecs_10k": Benchmark("10⁴ products of 8 × 8 and 8", partial(matvecs, 10**4), 1.0),
    "convolution_56": Benchmark("3 × 3 convolution, NHWC, 56² × 64", partial(convolution, 56), 1.1),
    "special_100k": Benchmark(
        "gammaln, i0e, erfinv of 10⁵", partial(special_functions, 10**5), 4.0
    ),
}
_RANDOM = {
    "uniform_1m": Benchmark("uniform, 10⁶", partial(draw, jax.random.uniform, 10**6), 2.5),
    "normal_1m": Benchmark("normal, 10⁶", partial(draw, jax.random.normal, 10**6), 2.5),
    "gamma_100k": Benchmark(
        "gamma, 10⁵", partial(draw, partial(jax.random.gamma, a=2.5), 10**5), 3.0
    ),
}
BENCHMARKS: Mapping[str, Benchmark] = {
    **_SEGMENTS,
    **_SCATTERS,
    **_GATHERS,
    **_ARITHMETIC,
    **_RANDOM,
}
