"""What holds for free dimensions: `constraints=`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx import SignatureError, UsageError, translate

X = np.arange(12, dtype=np.float32).reshape(3, 4)
TABLE = np.arange(32, dtype=np.float32).reshape(8, 4)


def positioned(x: Any) -> Any:
    return x + jnp.asarray(TABLE)[: x.shape[0]]


def first_rows(x: Any, y: Any) -> Any:
    return x + y[: x.shape[0]]


@pytest.mark.parametrize("constraints", ["s <= 8", ["8 >= s", "s >= 2"]])
def test_bounds(constraints: Any) -> None:
    program = translate(positioned, X, dynamic={"x": "s, ..."}, constraints=constraints)
    for rows in (2, 8):
        x = np.ones((rows, 4), np.float32)
        np.testing.assert_array_equal(program(x), x + TABLE[:rows])
    with pytest.raises(SignatureError, match="8"):
        program(np.ones((9, 4), np.float32))
    assert program.verify().ok
    assert program.report.notes == []


def test_two_dimensions() -> None:
    program = translate(first_rows, "s, 4", "t, 4", constraints=["t >= s"])
    np.testing.assert_array_equal(program(X[:2], TABLE), X[:2] + TABLE[:2])
    with pytest.raises(SignatureError, match="t >= s"):
        program(TABLE, X)
    equal = translate(lambda x, y: x + y, "s, 4", "t, 4", constraints=["t == s"])
    np.testing.assert_array_equal(equal(X, X), X + X)


def test_loaded_with_its_source(tmp_path: Path) -> None:
    program = translate(positioned, X, dynamic="s, ...", constraints=["s <= 8"])
    program.save(tmp_path / "model.onnx")
    loaded = hlo2onnx.load(
        tmp_path / "model.onnx", source=positioned, args=(X,), dynamic="s, ...",
        constraints=["s <= 8"],
    )  # fmt: skip
    assert loaded.verify(X).ok
    with pytest.raises(SignatureError, match="s <= 8"):
        loaded(np.ones((9, 4), np.float32))


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ("s < 8", r"has 's < 8', which is not a constraint.*\n  next .*\"s <= 64\" \(not s < 65\)"),
        ("s <= ", "has 's <= ', which is not a constraint"),
        ("s <= 6.5", "which is not a constraint.*6.5"),
        (["s <= 8", "q <= 3"], "has 'q <= 3', but no dimension is named q: the free .* are s"),
        (3, "constraints=3 is neither a text nor a list of texts"),
    ],
)
def test_texts_that_do_not_fit(constraints: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        translate(positioned, X, dynamic="s, ...", constraints=constraints)


def test_nothing_is_free() -> None:
    with pytest.raises(UsageError, match="no dimension is named s: none is free"):
        translate(positioned, X, constraints="s <= 8")


def test_programs_with_their_own_types() -> None:
    for source in (jax.jit(positioned).lower(X), "module {}"):
        with pytest.raises(UsageError, match="needs a function and example arguments; other"):
            translate(source, constraints="s <= 8")


HINTS: list[tuple[Any, str]] = [
    (positioned, "s <= 8"),
    (lambda x: jax.lax.slice(jnp.asarray(TABLE), (0, 0), (x.shape[0], 4)), "s <= 8"),
    (lambda x: (x, jnp.zeros((8 - x.shape[0], 4))), "s <= 8"),
    (lambda x: x if x.shape[0] <= 64 else -x, "s <= 64"),
]


@pytest.mark.parametrize(("function", "constraint"), HINTS)
def test_the_hint_is_right(function: Any, constraint: str) -> None:
    with pytest.raises(UsageError, match=rf'sizes of s: .*\n  next .*constraints=\["{constraint}'):
        translate(function, X, dynamic="s, ...")
    assert translate(function, X, dynamic="s, ...", constraints=constraint).verify(X).ok


def test_the_hint_for_two_dimensions() -> None:
    with pytest.raises(UsageError, match=r'sizes of s, t: .*\n.*constraints=\["s <= t"\]'):
        translate(first_rows, "s, 4", "t, 4")
