"""Keys of an inner while loop that are computed in a loop of their own."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from verified import verified

import hlo2onnx

KEYS = np.arange(10, dtype=np.uint32).reshape(5, 2)
LIMITS = np.array([0, 1, 2.5, 0.2], np.float32)
NAME = "while-fission"


def search(
    most: int = 4,
    chained: bool = False,
    bounded: bool = True,
    lanes: bool = True,
    by_total: bool = False,
    dtype: Any = jnp.float32,
) -> Any:
    """Five searches one after another, each of at most `most` random steps in four lanes.

    Args:
        chained: Whether a search starts from what the one before has found.
        bounded: Whether the number of steps is bounded.
        lanes: Whether there are lanes, or one number.
        by_total: Whether the next key depends on the numbers before.
    """

    def walk(key: Array, limit: Array) -> Any:
        def step(carry: Any) -> Any:
            key, total, count, _ = carry
            key, own = jax.random.split(key)
            total = total + jax.random.uniform(own)
            if by_total:
                key = jax.random.fold_in(key, total.astype(jnp.int32))
            going = total < limit
            if bounded:
                going &= count + 1 < most
            return key, total, count + 1, going

        return lax.while_loop(
            lambda s: s[3], step, (key, jnp.float32(0), jnp.zeros((), dtype), True)
        )[1]

    def run(keys: Array, limits: Array) -> Array:
        def trip(found: Array, key: Array) -> Any:
            limits_now = limits + found / 8
            if chained:
                key = jax.random.fold_in(key, found.sum().astype(jnp.int32))
            if lanes:
                new = jax.vmap(walk)(jax.random.split(key, 4), limits_now)
            else:
                new = found.at[0].set(walk(key, limits_now[2]))
            return new, new * 2

        return lax.scan(trip, jnp.zeros(4), keys)[1]

    return run


def inner_operators(program: hlo2onnx.OnnxProgram) -> Counter[str]:
    """The operators in loops inside of loops."""
    graphs = [x.as_graph() for n in program.model.graph for x in n.attributes.values() if _is(x)]
    inner = [x.as_graph() for g in graphs for n in g for x in n.attributes.values() if _is(x)]
    return Counter(node.op_type for graph in inner for node in graph)


def _is(attribute: Any) -> bool:
    return bool(attribute.type.name == "GRAPH")


@pytest.mark.parametrize(("lanes", "dtype"), [(True, jnp.float32), (False, jnp.int32)])
def test_keys_of_all_searches_at_once(lanes: bool, dtype: Any) -> None:
    """The inner loop reads its random numbers."""
    program = verified(search(lanes=lanes, dtype=dtype), KEYS, LIMITS, without=["loop-unroll"])
    assert program.report.rules[NAME] == 1
    assert not inner_operators(program)["BitwiseXor"]


@pytest.mark.parametrize("most", [1, 5, 6])
def test_the_bound(most: int) -> None:
    """More steps than searches may be more keys than the program computes."""
    program = verified(search(most), KEYS, LIMITS)
    assert program.report.rules[NAME] == (1 < most <= 5)


@pytest.mark.parametrize("options", [{"chained": True}, {"bounded": False}, {"by_total": True}])
def test_stays(options: dict[str, bool]) -> None:
    assert not verified(search(**options), KEYS, LIMITS).report.rules[NAME]
