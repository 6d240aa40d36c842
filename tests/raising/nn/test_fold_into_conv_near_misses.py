"""Near misses of the rules that fold factors into the weights of a convolution."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from jax import Array
from near_misses import FLOATS, PLACES, Family, Last, check, here, variants


def scaled(
    x: Array,
    channels: int = 4,
    factor: Any = (1.0, 2.0, -0.5, 3.0),
    dims: Sequence[int] = (1, 4, 1, 1),
    divide: bool = False,
    weights: float = 1.0,
    add: Any = None,
    whole: bool = False,
    reads: bool = False,
    last: Last = here,
) -> Any:
    """A convolution times or over a number a channel, or plus another; its sums are not exact,
    unless its weights are whole numbers."""
    w = (np.arange(channels * 18) % 5 - 2.0).reshape(channels, 2, 3, 3)
    w = (w if whole else np.sin(w + np.arange(channels * 18).reshape(w.shape))).astype(x.dtype)
    y = jax.lax.conv(x, w * x.dtype.type(weights), (1, 1), "SAME")
    if add is not None:
        y = y + np.resize(np.asarray(add, x.dtype), dims)
    s = np.resize(np.asarray(factor, x.dtype), dims)
    z = last(lambda: y / s if divide else y * s)
    return (z, y) if reads else z


FAMILIES: dict[str, Family] = {
    "scaled": Family("fold-scale-into-conv", scaled, [(1, 2, 3, 3)], {
        "channels": [1], "dims": [(), (4, 1, 1), (1, 1, 1, 3), (1, 1, 3, 1), (4, 1, 1, 1)],
        "factor": [np.nan, 0.0, (1.0, 0.0, 0.0, 2.0), 1e-30], "divide": [True],
        "add": [1.0, np.inf, (1.0, 2.0, 3.0, 4.0)], "whole": [True], "reads": [True],
        "dtype": FLOATS, "last": PLACES,
    }, special=False),
    "quotient": Family(
        "fold-scale-into-conv", functools.partial(scaled, divide=True), [(1, 2, 3, 3)],
        {"factor": [np.inf, 0.0, 3.0, 1e-30]}, special=False,
    ),
    "overflow": Family(
        "fold-scale-into-conv", functools.partial(scaled, weights=1e-20), [(1, 2, 3, 3)],
        {"factor": [1e-25, 1e38], "add": [1e-20]}, special=False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("family", "name", "choice"), [*variants(FAMILIES)])
def test_near_misses(family: Family, name: str, choice: Any) -> None:
    check(family, name, choice)
