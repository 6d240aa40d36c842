"""Tables without a database: totals by key, histograms, the distinct keys of a column."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example

Table = dict[str, jax.Array]


def group_by(keys: jax.Array, values: jax.Array, *, groups: int) -> Table:
    """Return the number of rows of each key, and sums, means, extremes of ``values[row, column]``.

    A key outside of ``[0, groups)`` is ignored.
    """
    count = jax.ops.segment_sum(jnp.ones_like(keys), keys, groups)
    total = jax.ops.segment_sum(values, keys, groups)
    least = jax.ops.segment_min(values, keys, groups)
    largest = jax.ops.segment_max(values, keys, groups)
    rows = count[:, None]
    return {
        "count": count,
        "sum": total,
        "mean": total / jnp.maximum(rows, 1).astype(values.dtype),
        # The minimum of no values is inf, the maximum -inf.
        "least": jnp.where(rows > 0, least, 0),
        "largest": jnp.where(rows > 0, largest, 0),
    }


def distribution(values: jax.Array, edges: jax.Array, *, bins: int) -> Table:
    """Return a histogram over equal bins, one over given edges, and the cumulative share."""
    counts, borders = jnp.histogram(values, bins)
    within = jnp.bincount(jnp.searchsorted(edges, values, side="right"), length=edges.size + 1)
    return {
        "counts": counts,
        "borders": borders,
        "within": within,
        "share": jnp.cumsum(within) / values.size,
    }


def distinct(keys: jax.Array, *, size: int) -> Table:
    """Return the distinct keys in order, their counts, and their first positions.

    The result has room for ``size`` keys: further keys are left out, and -1 fills free places.
    """
    found, first, codes, counts = jnp.unique(
        keys, return_index=True, return_inverse=True, return_counts=True, size=size, fill_value=-1
    )
    return {"keys": found, "first": first, "codes": codes, "counts": counts}


def build_group_by(
    rows: int = 20_000, groups: int = 100, columns: int = 8, dtype: Any = jnp.float32
) -> tuple[Callable[..., Table], tuple[jax.Array, jax.Array]]:
    """Return the totals by key, keys and values; some keys are unknown, and one has no rows."""
    rng = np.random.default_rng(0)
    keys = rng.integers(-1, groups + 1, rows)
    keys[keys == groups // 2] = 0
    values = jnp.asarray(rng.normal(size=(rows, columns)), dtype)
    return partial(group_by, groups=groups), (jnp.asarray(keys, jnp.int32), values)


def build_distribution(
    values: int = 10_000, bins: int = 50, dtype: Any = jnp.float32
) -> tuple[Callable[..., Table], tuple[jax.Array, jax.Array]]:
    """Return the histograms, values, and edges between which to count them."""
    drawn = np.random.default_rng(0).normal(size=values)
    edges = jnp.asarray([-3.0, -1.5, -0.5, 0.0, 0.5, 1.5, 3.0], dtype)
    return partial(distribution, bins=bins), (jnp.asarray(drawn, dtype), edges)


def build_distinct(
    rows: int = 5_000, size: int = 400
) -> tuple[Callable[[jax.Array], Table], tuple[jax.Array]]:
    """Return the search for distinct keys and a column of keys, frequent and rare ones."""
    keys = np.random.default_rng(0).zipf(1.5, rows) % 1000
    return partial(distinct, size=size), (jnp.asarray(keys, jnp.int32),)


EXAMPLES = [
    Example(
        name="segments",
        summary="Count, sum, mean, least and largest by key",
        build=build_group_by,
        tolerance=3e-7,
        small={"rows": 60, "groups": 7, "columns": 2},
        gradient=(1,),
    ),
    Example(
        name="histogram",
        summary="Histograms over equal bins and over given edges",
        build=build_distribution,
        tolerance=3e-7,
        small={"values": 200, "bins": 8},
    ),
    Example(
        name="unique",
        summary="The distinct keys of a column, with counts, places and codes",
        build=build_distinct,
        tolerance=0.0,
        small={"rows": 80, "size": 12},
    ),
]
