"""Sorts of one long row by its halves."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax
from jax import lax

from hlo2onnx.targets.workarounds import slow_sorts

LOW, HIGH = -(2**31), 2**31 - 1


@pytest.fixture(autouse=True)
def few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_sorts, "_SORTED_ELEMENTS", 5)


def numbers(count: int, kind: str = "any") -> np.ndarray:
    made = np.random.default_rng(count).integers(LOW, HIGH, count, dtype=np.int32, endpoint=True)
    kinds: dict[str, Any] = {
        "any": made,
        "equal": made % 3 - 1,
        "lowest": np.where(made % 2, LOW, made),
        "highest": np.where(made % 2, HIGH, made),
        "ascending": np.sort(made),
        "descending": np.sort(made)[::-1],
    }
    return np.ascontiguousarray(kinds[kind], dtype=np.int32)


@pytest.mark.parametrize("count", [*range(5, 18), 31, 32, 33, 63, 64, 65, 100, 129, 1000])
def test_every_length(count: int) -> None:
    run = against_jax(jnp.sort, numbers(count)).bit_exact()
    assert run.nodes["Min"] == (count - 1).bit_length()


@pytest.mark.parametrize("kind", ["any", "equal", "lowest", "highest", "ascending", "descending"])
@pytest.mark.parametrize("count", [8, 13, 22])
def test_contents_that_the_filling_may_meet(kind: str, count: int) -> None:
    assert against_jax(jnp.sort, numbers(count, kind)).bit_exact().nodes["Min"]
    run = against_jax(lambda x: lax.top_k(x, count)[0], numbers(count, kind)).bit_exact()
    assert run.nodes["Min"]


@pytest.mark.parametrize("shape", [(1, 9), (9, 1), (1, 9, 1)])
def test_axes_of_one(shape: tuple[int, ...]) -> None:
    axis = shape.index(9)
    run = against_jax(lambda x: jnp.sort(x, axis), numbers(9).reshape(shape)).bit_exact()
    assert run.nodes["Min"]


NEAR_MISSES: dict[str, tuple[Any, np.ndarray]] = {
    "few elements": (jnp.sort, numbers(4)),
    "two rows": (jnp.sort, numbers(18).reshape(2, 9)),
    "places are read": (lambda x: lax.top_k(x, 9)[1], numbers(9)),
    "numbers and places are read": (lambda x: lax.top_k(x, 9), numbers(9)),
    "not all": (lambda x: lax.top_k(x, 8)[0], numbers(9)),
    "floats": (jnp.sort, numbers(9).astype(np.float32)),
    "other integers": (jnp.sort, numbers(9).astype(np.int8)),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_stays(name: str) -> None:
    function, x = NEAR_MISSES[name]
    run = against_jax(function, x).bit_exact()
    assert run.nodes["TopK"] and not run.nodes["Max"]


def test_in_a_loop() -> None:
    def function(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 3, lambda i, y: jnp.sort(y * 3 + i), x)

    against_jax(function, numbers(9)).bit_exact()
