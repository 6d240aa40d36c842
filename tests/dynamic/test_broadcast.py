"""Broadcasting over symbolic extents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from every_size import every_size
from jax import lax

BROADCASTS: dict[str, Callable[[jax.Array], Any]] = {
    "select among three": lambda x: jnp.select([x > 1, x > 0], [x, -x], 0.0),
    "twice": lambda x: lax.broadcast(jnp.full(x.shape, False), (1,)),
    "iota": lambda x: x + jnp.arange(x.shape[0])[:, None],
    "tile": lambda x: jnp.tile(x, (2, 3)),
    "to nothing": lambda x: jnp.broadcast_to(x[:, :1], (x.shape[0], 0)),
    "outer": lambda x: jnp.outer(x[:, 0], x[:, 1]),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", BROADCASTS)
def test_broadcasts(name: str) -> None:
    every_size(BROADCASTS[name], "b, 8")
