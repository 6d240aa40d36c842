"""Sorts of one long row whose integers are close together."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax
from jax import lax

from hlo2onnx.targets.workarounds import slow_kernels

LOW, HIGH = -(2**31), 2**31 - 1
SIZE = 12


@pytest.fixture(autouse=True)
def few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_kernels, "_COUNTED_ELEMENTS", 2)


def numbers(low: int, high: int, size: int = SIZE) -> np.ndarray:
    """Random integers, both bounds among them."""
    made = np.random.default_rng(size).integers(low, high, size, np.int32, endpoint=True)
    made[[1, -1]] = high, low
    return made


def descending(x: jax.Array) -> jax.Array:
    return lax.top_k(x, x.size)[0]


ROWS = {
    "all different": np.arange(SIZE, dtype=np.int32)[::-1].copy(),
    "all equal": np.full(SIZE, 7, np.int32),
    "all lowest": np.full(SIZE, LOW, np.int32),
    "all highest": np.full(SIZE, HIGH, np.int32),
    "narrow": numbers(-3, 2),
    "as wide as counted": numbers(5, 5 + SIZE - 1),
    "one wider": numbers(5, 5 + SIZE),
    "from the lowest": numbers(LOW, LOW + SIZE - 1),
    "up to the highest": numbers(HIGH - SIZE + 1, HIGH),
    "twice as wide as i32": numbers(LOW, HIGH),
    # The difference of these two is 1 in i32.
    "wraps to a narrow range": np.array([HIGH, LOW] * 6, np.int32),
    "two": np.array([4, 3], np.int32),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("sort", [jnp.sort, descending])
def test_ranges(name: str, sort: Any) -> None:
    run = against_jax(sort, ROWS[name]).bit_exact()
    assert (run.nodes["If"], run.nodes["ScatterElements"], run.nodes["TopK"]) == (1, 2, 1)


@pytest.mark.parametrize("sort", [jnp.sort, descending])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_types(dtype: type, sort: Any) -> None:
    bounds = np.iinfo(dtype)
    low, high = int(bounds.min), int(bounds.max)
    rows = [
        [low, low + 3, low, low + 1],
        [low, high, high - 1],
    ]
    for row in rows:
        run = against_jax(sort, np.array(row, dtype)).bit_exact()
        assert (run.nodes["If"], run.nodes["ScatterElements"]) == (1, 2)


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.uint64])
def test_other_types_are_compared(dtype: type) -> None:
    with jax.enable_x64(True):
        against_jax(jnp.sort, numbers(0, 3).astype(dtype)).bit_exact().has_no("If", "CumSum")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_types_of_few_numbers(dtype: type) -> None:
    """All differences of 256 numbers of 8 bits are counted."""
    bounds = np.iinfo(dtype)
    row = np.random.default_rng(0).integers(bounds.min, bounds.max, 256, dtype, endpoint=True)
    row[[5, 7]] = bounds.min, bounds.max
    for sort in (jnp.sort, descending):
        against_jax(sort, row).bit_exact().has_no("If", "TopK")
    assert against_jax(jnp.sort, row[:255]).bit_exact().nodes["If"]


@pytest.mark.parametrize("shape", [(1, SIZE), (SIZE, 1), (1, SIZE, 1)])
def test_axes_of_one(shape: tuple[int, ...]) -> None:
    axis = shape.index(SIZE)
    run = against_jax(lambda x: jnp.sort(x, axis), numbers(-3, 4).reshape(shape)).bit_exact()
    assert run.nodes["ScatterElements"]


def test_unique() -> None:
    """The places of a sort are not read if they only gather the sorted row."""

    run = against_jax(lambda x: jnp.unique(x, size=5, fill_value=-1), numbers(0, 6)).bit_exact()
    assert run.nodes["TopK"] == 1 and run.nodes["If"]


NEAR_MISSES: dict[str, tuple[Any, np.ndarray]] = {
    "one element": (jnp.sort, numbers(0, 3)[:1]),
    "two rows": (jnp.sort, numbers(0, 3).reshape(2, -1)),
    "places are read": (lambda x: lax.top_k(x, SIZE)[1], numbers(0, 3)),
    "numbers and places are read": (lambda x: lax.top_k(x, SIZE), numbers(0, 3)),
    "not all": (lambda x: lax.top_k(x, SIZE - 1)[0], numbers(0, 3)),
    "floats": (jnp.sort, numbers(0, 3).astype(np.float32)),
    "booleans": (jnp.sort, numbers(0, 1).astype(bool)),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_stays(name: str) -> None:
    function, x = NEAR_MISSES[name]
    run = against_jax(function, x).bit_exact()
    assert not run.nodes["ScatterElements"] and not run.nodes["If"]


def test_few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_kernels, "_COUNTED_ELEMENTS", SIZE + 1)
    against_jax(jnp.sort, numbers(0, 3)).bit_exact().has_no("If")
    monkeypatch.setattr(slow_kernels, "_COUNTED_ELEMENTS", SIZE)
    assert against_jax(jnp.sort, numbers(0, 3)).bit_exact().nodes["If"] == 1


def test_in_a_loop() -> None:
    def function(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 40, lambda i, y: jnp.sort(y * (i + 2)), x)

    assert against_jax(function, numbers(-3, 4)).bit_exact().nodes["ScatterElements"] == 2
