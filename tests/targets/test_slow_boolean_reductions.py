"""Reductions of many booleans to one, as bytes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax
from target_costs import use_costs

MASKS = {"all": [1, 1, 1, 1, 1, 1], "some": [0, 1, 0, 0, 1, 1], "none": [0] * 6}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("function", [jnp.any, jnp.all, lambda x: jnp.any(x, keepdims=True)])
@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_any_and_all(
    mask: str, function: Any, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.array(MASKS[mask], bool).reshape(shape)
    for least, casts in ((7, 0), (6, 2)):
        use_costs(monkeypatch, reduced_booleans=least)
        assert against_jax(function, x).bit_exact().nodes["Cast"] == casts


NEAR_MISSES: dict[str, tuple[Any, np.ndarray]] = {
    "several results": (lambda x: jnp.any(x, 0), np.ones((2, 3), bool)),
    "bytes": (jnp.max, np.arange(6, dtype=np.uint8)),
    "floats": (jnp.max, np.arange(6, dtype=np.float32)),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, reduced_booleans=2)
    function, x = NEAR_MISSES[name]
    assert not against_jax(function, x).bit_exact().nodes["Cast"]
