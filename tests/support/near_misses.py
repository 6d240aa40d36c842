"""Programs for which a rule was made, and variants that differ in one ingredient: an axis, a shape,
a constant by one unit in the last place, an element type, another reader, the last step's place.

With the rule and without it they give XLA's numbers, including NaN, infinities and zeros of both
signs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import Array

import hlo2onnx

Last = Callable[[Callable[[], Array]], Array]
"""The place of a program's last step."""


def here(step: Callable[[], Array]) -> Array:
    """Outside of branches and loops."""
    return step()


def _in_branch(step: Callable[[], Array]) -> Array:
    """In a branch, which captures the earlier values."""
    return jax.lax.cond(_TRIPS[-1] > 0, step, lambda: jnp.zeros_like(step()))


def _in_loop(step: Callable[[], Array]) -> Array:
    """In a loop, which captures the earlier values."""
    return jax.lax.fori_loop(0, _TRIPS[-1], lambda i, last: jnp.maximum(step(), last), step())


_TRIPS: list[Array] = []
"""The program's first argument, 2."""


PLACES: tuple[Last, ...] = (_in_branch, _in_loop)


@dataclass(frozen=True)
class Family:
    """A program and its near misses.

    Attributes:
        rule: The rule that fires on the program itself.
        build: Takes arrays and ingredients; returns one result or several.
        shapes: The shapes of the arrays.
        others: The other values of each ingredient.
        special: Whether rows hold NaN, infinities and zeros.
    """

    rule: str
    build: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    others: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    special: bool = True

    def variants(self) -> Iterator[tuple[str, Any]]:
        """Each single change of an ingredient; None for no change."""
        yield "itself", None
        for name, choices in self.others.items():
            for choice in choices:
                yield name, choice


def a_ulp_more(number: float) -> float:
    """The next larger f32 number."""
    return float(np.nextafter(np.float32(number), np.float32(np.inf)))


HALVES = ["float16", "bfloat16"]
FLOATS = [*HALVES, "float64"]
ELEMENTWISE: dict[str, Sequence[Any]] = {
    "dtype": FLOATS,
    "shape": [(0, 4), (1, 1), ()],
    "last": PLACES,
}


def arrays(family: Family, shape: tuple[int, ...] | None, dtype: str) -> list[np.ndarray]:
    """Numbers of both signs, with a special one in each row."""
    rng = np.random.default_rng(len(family.rule))
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    made = []
    for dims in [shape] if shape is not None else family.shapes:
        array = rng.normal(0, 3, dims)
        rows = array.reshape(-1, dims[-1]) if array.ndim > 1 and array.size else np.empty((0, 0))
        if family.special:
            for row, item in zip(rows, (np.nan, np.inf, -np.inf, -0.0, 0.0), strict=False):
                row[row.size // 2] = item
            rows[5:] = -np.inf
        made.append(np.asarray(array, kind))
    return made


def check(family: Family, name: str, choice: Any) -> None:
    """Compares the program with XLA, with the rule and without."""
    given = {} if name == "itself" else {name: choice}
    dtype = given.pop("dtype", "float32")
    is_shape = name == "shape" and family.rule != "reduce-mean"
    inputs = arrays(family, given.pop("shape") if is_shape else None, dtype)

    def function(trips: Array, *args: Array) -> Any:
        _TRIPS.append(trips)
        try:
            return family.build(*args, **given)
        finally:
            _TRIPS.pop()

    with jax.enable_x64(dtype == "float64"):
        trips = np.int32(2)
        lowered = jax.jit(function, keep_unused=True).lower(trips, *inputs)
        for without in ((), (family.rule,) if family.rule else ()):
            program = hlo2onnx.translate(lowered, without=without)
            found = program.verify(trips, *inputs)
            assert found.ok, f"{name}={choice!r} without={without}\n{found}\n{program.model}"
            if name == "itself" and family.rule and not without:
                assert program.report.rules[family.rule], program.model


def variants(families: Mapping[str, Family]) -> Iterator[Any]:
    """All programs; those without a past failure are wide tests."""
    for title, family in families.items():
        for name, choice in family.variants():
            is_quick = name in ("itself", "squares", "alpha", "channels") or (
                (title, name) in (("sigmoid", "reader"), ("relu", "reader"))
                or (title, choice) == ("log_softmax", "float64")
            )
            yield pytest.param(
                family,
                name,
                choice,
                id=f"{title}-{name}-{getattr(choice, '__name__', choice)}",
                marks=[] if is_quick else pytest.mark.wide,
            )
