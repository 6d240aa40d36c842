"""reduce_window and its relatives along axes of symbolic extent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_size import every_size
from jax import lax

import hlo2onnx

CUMULATIVE: dict[str, Callable[[jax.Array], Any]] = {
    "cumsum": lambda x: jnp.cumsum(x, 0),
    "cumsum of integers": lambda x: jnp.cumsum((3 * x).astype(jnp.int32), 0),
    "cumsum of bytes": lambda x: lax.cumsum((30 * x).astype(jnp.int8), 0),
    "cumsum, reverse": lambda x: lax.cumsum(x, 0, reverse=True),
    "cumsum, static axis": lambda x: jnp.cumsum(x, 1),
    "cumsum, beside another symbolic axis": lambda x: jnp.cumsum(jnp.tile(x, (1, x.shape[0])), 1),
    "cumsum, complex": lambda x: lax.cumsum(lax.complex(x, -x), 0),
    "cumprod": lambda x: jnp.cumprod(x, 0),
    "cummax": lambda x: lax.cummax(x, 0),
    "cummax of NaN": lambda x: lax.cummax(jnp.where(x > 1, jnp.nan, x), 0),
    "cummin, reverse": lambda x: lax.cummin(x, 0, reverse=True),
    "cumlogsumexp": lambda x: lax.cumlogsumexp(x, 0),
    "cumlogsumexp, reverse": lambda x: lax.cumlogsumexp(x, 0, reverse=True),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative(name: str) -> None:
    every_size(CUMULATIVE[name], "n, 3", sizes=(1, 2, 7, 33))


def test_long_sums_keep_their_digits() -> None:
    program = hlo2onnx.translate(jnp.cumsum, "n")
    x = np.random.default_rng(0).standard_normal(30_000).astype(np.float32)
    exact = np.cumsum(x.astype(np.float64))
    assert np.abs(program(x) - exact).max() <= 1e-6 * np.abs(x).sum()


def pool(
    init: float, function: Any, window: tuple[int, int], strides: tuple[int, int], padding: Any
) -> Callable[[jax.Array], jax.Array]:
    """Pooling of (batch, height, width, channels)."""
    return lambda x: lax.reduce_window(
        x, init, function, (1, *window, 1), (1, *strides, 1), padding
    )


POOLS = {
    "max, valid": pool(-jnp.inf, lax.max, (2, 2), (2, 2), "VALID"),
    "max, same": pool(-jnp.inf, lax.max, (3, 3), (2, 2), "SAME"),
    "min, same": pool(jnp.inf, lax.min, (3, 2), (1, 2), "SAME"),
    "sum, same": pool(0.0, lax.add, (2, 2), (1, 1), "SAME"),
    "sum, explicit": pool(0.0, lax.add, (2, 2), (1, 1), ((0, 0), (2, 1), (0, 3), (0, 0))),
    "product": pool(1.0, lax.mul, (2, 2), (2, 2), "VALID"),
    "long": pool(0.0, lax.add, (1, 20), (1, 1), "SAME"),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", POOLS)
def test_pooling(name: str) -> None:
    every_size(POOLS[name], "b, h, w, 3", sizes=(2, 4, 7))


def test_same_pooling_is_one_node() -> None:
    program = hlo2onnx.translate(POOLS["max, same"], "b, h, w, 3")
    assert program.report.nodes["MaxPool"] == 1


def test_gaps_along_the_static_axis() -> None:
    every_size(
        lambda x: lax.reduce_window(
            x, 0.0, lax.add, (2, 2), (1, 1), ((0, 0), (0, 0)), base_dilation=(1, 2)
        ),
        "n, 6",
        sizes=(2, 7),
    )


def test_windows_in_gaps_of_the_symbolic_axis() -> None:
    """Half of the windows hold no element: they give -9."""

    def largest(a: jax.Array, b: jax.Array) -> jax.Array:
        return lax.select(a > b, a, b)

    every_size(
        lambda x: lax.reduce_window(x, -9.0, largest, (1, 1), (1, 1), "VALID", (2, 1)),
        "n, 3",
        sizes=(1, 4),
    )


def test_a_window_over_the_whole_axis() -> None:
    every_size(
        lambda x: lax.reduce_window(x, 0.0, lax.add, (x.shape[0], 1), (1, 1), "VALID"), "n, 3"
    )


@pytest.mark.parametrize(
    "padding", [((0, 0), (0, -1)), ((0, 0), (1, 1)), ((-1, 2), (0, 0))], ids=str
)
@pytest.mark.parametrize("function", [lax.add, lax.min])
def test_a_single_window_that_is_not_the_whole_axis(function: Any, padding: Any) -> None:
    """The stride leaves what stands behind it aside."""
    every_size(
        lambda x: lax.reduce_window(x, 2.0, function, (1, 2), (1, 3), padding), "n, 4", sizes=(2, 5)
    )


@pytest.mark.parametrize("function", [lax.add, lambda a, b: lax.select(a > b, a, b)])
def test_no_window_fits_the_static_axis(function: Any) -> None:
    every_size(lambda x: lax.reduce_window(x, 0.0, function, (2, 4), (1, 1), "VALID"), "n, 3")


def test_windows_of_a_symbolic_size() -> None:
    """Neither cumulative nor the whole axis: a Loop."""
    padding = ((1, 1), (0, 0))
    program = every_size(
        lambda x: lax.reduce_window(x, 0.0, lax.add, (x.shape[0], 1), (1, 1), padding), "n, 3"
    )
    assert program.report.nodes["Loop"] == 1


def test_regions_without_a_name() -> None:
    """The derivative of max pooling looks for the place of the largest."""
    largest = pool(-jnp.inf, lax.max, (2, 2), (1, 1), "SAME")
    every_size(lambda x: jax.jvp(largest, (x,), (jnp.sin(x),))[1], "b, h, w, 2", sizes=(2, 5))


@pytest.mark.wide
@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize(("initial", "function"), [(-jnp.inf, lax.max), (1.0, lax.mul)])
def test_axes_that_are_shorter_than_a_window(stride: int, initial: float, function: Any) -> None:
    """No window fits; one does as soon as there are as many elements, whatever the stride."""
    short = pool(initial, function, (4, 4), (stride, stride), "VALID")
    every_size(short, "b, h, w, 2", sizes=(3, 4, 5, 9))
    program = every_size(short, "b, 3*h + 1, 4*w, 2", sizes=(1, 2))
    assert "Slice" not in program.report.nodes or function is lax.mul
