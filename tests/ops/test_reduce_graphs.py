"""The graphs that reductions become."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax
from reduce_case import tame, values


@pytest.mark.wide
def test_sums_of_integers_are_one_node_where_they_cannot_overflow() -> None:
    mask = values("i1", (3, 40, 4))
    count = against_jax(lambda x: jnp.sum(x, 1, np.int32), mask).bit_exact()
    count.graph_is("Cast", "ReduceSum")
    small = values("i8", (3, 40, 4))
    against_jax(lambda x: jnp.sum(x, (0, 2), np.int8), small).bit_exact().has_no("MatMul")
    any_value = values("i32", (3, 40, 4))
    for axis in (0, 1, 2, (0, 2), (0, 1, 2)):
        run = against_jax(lambda x, a=axis: jnp.sum(x, a, np.int32), any_value).bit_exact()
        run.has_no("ReduceSum")
        assert run.nodes["MatMul"] == 1


def test_sum_is_one_node() -> None:
    x = tame("f32", (3, 4, 5))
    against_jax(lambda x: x.sum((0, 2)), x).close().graph_is("ReduceSum")
    against_jax(lambda x: x.prod(1), x).close().graph_is("ReduceProd")


def test_max_of_what_cannot_be_nan_is_one_node() -> None:
    x = values("i32", (3, 4))
    against_jax(lambda x: x.max(1), x).bit_exact().graph_is("ReduceMax")
    against_jax(lambda x: x.astype(np.float32).min(1), x).close().graph_is("Cast", "ReduceMin")


def test_the_guard_against_nan() -> None:
    guarded = ("ReduceSum", "ReduceMax", "IsNaN", "Relu", "Where")
    against_jax(lambda x: x.max(1), values("f32", (8, 5))).bit_exact().graph_is(*guarded)
    tame_x = tame("f32", (8, 5))
    against_jax(lambda x: x.max(1), tame_x, nan="runtime").bit_exact().graph_is("ReduceMax")
    argmax = against_jax(lambda x: jnp.argmax(x, 1), tame_x, nan="runtime").bit_exact()
    assert argmax.nodes["ArgMax"] == 1
    argmax.has_no("IsNaN", "Where")


@pytest.mark.parametrize("function", [jnp.abs, lambda x: jnp.abs(x) + jnp.sqrt(x)])
def test_the_guard_of_what_is_not_negative(function: Callable[[jax.Array], jax.Array]) -> None:
    x = values("f32", (80, 50))
    run = against_jax(lambda x: function(x).max(1), x).close()
    assert (run.nodes["ReduceSum"], run.nodes["IsNaN"], run.nodes["Relu"]) == (1, 1, 0)


def test_argmax_of_integers_is_one_node_and_a_cast() -> None:
    x = values("i32", (3, 4))
    run = against_jax(lambda x: jax.lax.argmax(x, 1, np.int32), x)
    run.bit_exact().graph_is("ArgMax", "Cast")


def test_all_and_any_reduce_booleans() -> None:
    x = values("i1", (3, 4))
    against_jax(lambda x: x.all(1), x).bit_exact().graph_is("ReduceMin")
    against_jax(lambda x: x.any(1), x).bit_exact().graph_is("ReduceMax")


def test_reducing_over_ones_is_no_reduction() -> None:
    x = values("f32", (6, 1))
    against_jax(lambda x: x.max(1), x).bit_exact().graph_is("Squeeze")
