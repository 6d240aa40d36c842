"""One element or row of a small tensor, written by a comparison for each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from verified import verified

import hlo2onnx
from hlo2onnx.targets import load_target

ELEMENTS = int(load_target("ort-cpu").costs.small_elements)
PLACES = [0, 3, 6, 7, -1, -7, -8, 2**31 - 1, -(2**31)]
X = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1, 2], np.float32)
M = np.arange(35, dtype=np.float32).reshape(7, 5)
ROW = np.array([np.nan, -0.0, 3, np.inf, 5], np.float32)


def raw(x: Array, index: Array, update: Array, axes: tuple[int, ...] = (0,)) -> Array:
    """A scatter without JAX's rule for negative indices."""
    numbers = lax.ScatterDimensionNumbers(
        tuple(range(update.ndim)), tuple(sorted(axes)), scatter_dims_to_operand_dims=axes
    )
    return lax.scatter(x, jnp.atleast_1d(index), update, numbers, mode="drop")


def equal_everywhere(function: Callable[..., Any], *args: Any) -> hlo2onnx.OnnxProgram:
    """The translation, which gives XLA's elements for windows at each of the places."""
    compiled = jax.jit(function)
    program = hlo2onnx.translate(compiled.lower(*args, np.int32(0)))
    for place in map(np.int32, PLACES):
        found, wanted = np.asarray(program(*args, place)), np.asarray(compiled(*args, place))
        np.testing.assert_array_equal(found, wanted)
        assert found.tobytes() == wanted.tobytes() or np.isnan(wanted).any()
    return program


WRITES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "element": (lambda x, i: raw(x, i, jnp.float32(9)), (X,)),
    "nan": (lambda x, i: raw(x, i, jnp.float32(np.nan)), (X,)),
    "row": (lambda x, i: raw(x, i, jnp.asarray(ROW)), (M,)),
    "column": (lambda x, i: raw(x.T, i, jnp.asarray(ROW), (1,)), (M,)),
    "pair": (lambda x, i: raw(x, jnp.stack([i, i // 2]), jnp.float32(9), (0, 1)), (M,)),
    "pair backwards": (lambda x, i: raw(x, jnp.stack([i // 2, i]), jnp.float32(9), (1, 0)), (M,)),
    "add": (lambda x, i: x.at[i].add(jnp.asarray(ROW), mode="drop"), (M,)),
    "min": (lambda x, i: x.at[i].min(2.0, mode="drop"), (X,)),
    "multiply": (lambda x, i: x.at[i].multiply(-0.0, mode="drop"), (X,)),
    "apply": (lambda x, i: x.at[i].apply(jnp.square), (X[1:],)),
    "integers": (lambda x, i: raw(x, i, jnp.int32(-(2**31))), (np.arange(7, dtype=np.int32),)),
    "unsigned index": (lambda x, i: raw(x, i.astype(jnp.uint32), jnp.float32(9)), (X,)),
}


@pytest.mark.parametrize("update", [True, False])
def test_booleans(update: bool) -> None:
    """Logic chooses between booleans, for which runtimes have no Where."""
    x = np.arange(7) % 2 == 0
    program = equal_everywhere(lambda x, i: raw(x, i, jnp.asarray(update)), x)
    assert "ScatterND" not in program.report.nodes and "Cast" not in program.report.nodes


@pytest.mark.parametrize("name", WRITES)
def test_a_window_that_may_be_outside(name: str) -> None:
    function, args = WRITES[name]
    program = equal_everywhere(function, *args)
    assert "ScatterND" not in program.report.nodes and program.report.nodes["Where"]


def clipped(x: Array, i: Array) -> Array:
    return raw(x, jnp.clip(i, 0, 6), jnp.float32(9))


NEAR_MISSES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "inside": (clipped, (X,)),
    "large": (lambda x, i: raw(x, i, jnp.float32(9)), (np.ones(ELEMENTS + 1, np.float32),)),
    "longer window": (
        lambda x, i: lax.scatter(
            x, i[None], jnp.ones(2), lax.ScatterDimensionNumbers((0,), (), (0,)), mode="drop"
        ),
        (X,),
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(name: str) -> None:
    function, args = NEAR_MISSES[name]
    assert equal_everywhere(function, *args).report.nodes["ScatterND"]


def test_without_knowledge_of_the_target() -> None:
    program = verified(lambda x, i: raw(x, i, jnp.float32(9)), X, np.int32(3), target="onnx")
    assert program.report.nodes == {"Equal": 1, "Where": 1}
