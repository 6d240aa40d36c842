"""Near misses of rules about shapes and neutral operands: variants of a program that differ in one
ingredient: an axis, a shape, a constant by one unit in the last place, an element type, another
reader, the last step's place.

With the rule and without it they give XLA's numbers, including NaN, infinities and zeros of both
signs.
"""

from __future__ import annotations

import functools
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


def neutral(x: Array, by: Any = 1, op: str = "mul", side: int = 0, last: Last = here) -> Array:
    """x op constant, or constant op x."""
    function: Callable[..., Array] = getattr(jax.lax, op)
    pair = (x, np.full(x.shape, by, x.dtype))
    return 1 / last(lambda: function(*pair[:: 1 - 2 * side]))


def transposed(
    x: Array,
    perm: tuple[int, ...] = (1, 2, 0),
    then: str = "add",
    other: Sequence[int] = (),
    reads: bool = False,
    last: Last = here,
) -> Any:
    """Something read through a Transpose."""
    t = x.transpose(perm)
    dims = tuple(other)
    c = (np.arange(np.prod(dims, dtype=int)) + 1).astype(x.dtype).reshape(dims)
    y = last(lambda: {
        "add": lambda: t + c,
        "pad": lambda: jnp.pad(t, ((0, 1), (2, 0), (1, 1)), constant_values=3) + 1,
        "negative pad": lambda: jax.lax.pad(
            t, x.dtype.type(2), ((0, -1, 0), (1, 0, 0), (-1, 2, 0))
        ),
        "slice": lambda: t[1:, ::2, ::-1] * 2,
        "max": lambda: t.max(1) * 2,
        "sum": lambda: t.sum((0, -1), keepdims=True) * 2,
        "concat": lambda: jnp.concatenate([t, c + jnp.zeros_like(t)], 1) * 2,
        "split": lambda: t.reshape(*t.shape[:2], -1, 2) * 2,
        "join": lambda: t.reshape(-1, t.shape[-1]) * 2,
    }[then]())  # fmt: skip
    return (y, t) if reads else y


def reshaped(
    x: Array,
    dims: Sequence[int] = (12, 2),
    other: Sequence[int] = (),
    reads: bool = False,
    last: Last = here,
) -> Any:
    """Something added behind a Reshape."""
    view = x.reshape(tuple(dims))
    c = (np.arange(np.prod(other, dtype=int)) + 1).astype(x.dtype).reshape(tuple(other))
    y = last(lambda: jnp.exp(view * c))
    return (y, view) if reads else y


def kept(
    x: Array,
    axis: int = 1,
    back: int = 1,
    kind: str = "sum",
    reads: bool = False,
    last: Last = here,
) -> Any:
    """What was reduced, with an axis put back."""
    r = getattr(x, kind)(axis)
    y = last(lambda: x - jnp.expand_dims(jnp.exp(r * x.dtype.type(0.1)), back))
    return (y, r) if reads else y


def product(
    x: Array,
    y: Array,
    perm: tuple[int, ...] = (0, 2, 1),
    before: tuple[int, ...] = (0, 2, 1),
    reads: bool = False,
    last: Last = here,
) -> Any:
    """A product of transposed operands, transposed."""
    z = jnp.matmul(x.transpose(before), y.transpose(before))
    t = last(lambda: z.transpose(perm))
    return (t, z) if reads else t


FAMILIES: dict[str, Family] = {
    "neutral": Family("fold-identity-operand", neutral, [(4, 6)], {
        "by": [-1, a_ulp_more(1), 0.0, np.nan], "op": ["div", "add", "sub", "max", "min"],
        "side": [1], "dtype": FLOATS,
    }),
    "no sum": Family(
        "fold-identity-operand", functools.partial(neutral, by=-0.0, op="add"), [(4, 6)],
        {"side": [1]},
    ),
    "no difference": Family(
        "fold-identity-operand", functools.partial(neutral, by=0.0, op="sub"), [(4, 6)],
        {"side": [1]},
    ),
    "transposed": Family("sink-transpose", transposed, [(2, 3, 4)], {
        "perm": [(0, 1, 2), (2, 1, 0)], "reads": [True], "last": PLACES,
        "other": [(1, 4, 1), (3, 1, 2), (2, 3, 4, 2)], "shape": [(1, 3, 4), (0, 3, 4), (2, 1, 1)],
    }),
    **{
        f"{then} transposed": Family(rule, functools.partial(transposed, then=then), [(4, 2, 4)], {
            "perm": [(0, 1, 2), (2, 1, 0), (2, 0, 1)], "reads": [True],
        })
        for then, rule in {  # what reads it, and the rule
            "pad": "sink-transpose", "negative pad": "sink-transpose",
            "slice": "sink-transpose", "split": "sink-transpose",
            "max": "sink-transpose", "sum": "sink-transpose",
            "concat": "", "join": "",
        }.items()
    },
    "reshaped": Family("sink-reshape", reshaped, [(4, 6)], {
        "dims": [(4, 3, 2), (24,), (4, 1, 6), (1, 4, 6), (6, 4)],
        "other": [(12, 2), (1, 2), (12, 1), (3, 12, 2)], "reads": [True],
        "shape": [(2, 12), (24, 1)], "last": PLACES,
    }),
    "kept": Family("reduce-keepdims", kept, [(5, 5)], {
        "axis": [0], "back": [0], "kind": ["max", "min", "prod", "mean"], "reads": [True],
        "last": PLACES,
    }),
    "product": Family("matmul-transpose", product, [(3, 3, 3), (3, 3, 3)], {
        "perm": [(2, 1, 0), (1, 0, 2), (0, 1, 2)], "before": [(1, 0, 2), (2, 1, 0)],
        "reads": [True],
    }, special=False),
}  # fmt: skip


@pytest.mark.parametrize(("family", "name", "choice"), [*variants(FAMILIES)])
def test_near_misses(family: Family, name: str, choice: Any) -> None:
    check(family, name, choice)
