"""The graphs that reductions become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax
from reduce_case import tame, values

F32 = tame("f32", (3, 4, 5))
I32 = values("i32", (3, 4))
I1 = values("i1", (3, 4))

GRAPHS: dict[str, tuple[Callable[..., Any], np.ndarray, str]] = {
    "sum": (lambda x: x.sum((0, 2)), F32, "ReduceSum"),
    "product": (lambda x: x.prod(1), F32, "ReduceProd"),
    "maximum of integers": (lambda x: x.max(1), I32, "ReduceMax"),
    "minimum of what was integers": (
        lambda x: x.astype(np.float32).min(1), I32, "Cast ReduceMin"
    ),
    "guarded maximum": (
        lambda x: x.max(1), values("f32", (8, 5)), "ReduceSum ReduceMax IsNaN Relu Where"
    ),
    "argmax of integers": (lambda x: jax.lax.argmax(x, 1, np.int32), I32, "ArgMax Cast"),
    "all": (lambda x: x.all(1), I1, "ReduceMin"),
    "any": (lambda x: x.any(1), I1, "ReduceMax"),
    "one element": (lambda x: x.max(1), values("f32", (6, 1)), "Squeeze"),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name: str) -> None:
    function, x, nodes = GRAPHS[name]
    against_jax(function, x).close().graph_is(*nodes.split())


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


def test_no_guard_where_the_runtime_decides() -> None:
    x = tame("f32", (8, 5))
    against_jax(lambda x: x.max(1), x, nan="runtime").bit_exact().graph_is("ReduceMax")
    argmax = against_jax(lambda x: jnp.argmax(x, 1), x, nan="runtime").bit_exact()
    assert argmax.nodes["ArgMax"] == 1
    argmax.has_no("IsNaN", "Where")


@pytest.mark.parametrize("function", [jnp.abs, lambda x: jnp.abs(x) + jnp.sqrt(x)])
def test_the_guard_of_what_is_not_negative(function: Callable[[jax.Array], jax.Array]) -> None:
    run = against_jax(lambda x: function(x).max(1), values("f32", (80, 50))).close()
    assert (run.nodes["ReduceSum"], run.nodes["IsNaN"], run.nodes["Relu"]) == (1, 1, 0)
