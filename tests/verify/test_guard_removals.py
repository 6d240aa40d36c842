"""A model without a guard of its program differs: the inputs reach the guard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx
from hlo2onnx.frontend.load import load
from hlo2onnx.verify.judge import Judge
from hlo2onnx.verify.runners import Candidate

Function = Callable[..., Any]

TABLE = np.zeros((5, 3), np.float32)
INDICES = np.zeros(4, np.int32)
X = np.ones((4, 3), np.float32)
INTEGERS = np.ones(6, np.int32)
USERS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)
BRANCHES = (jnp.sin, jnp.cos, lambda x: 2 * x)

REMOVALS: dict[str, tuple[Function, Function, tuple[np.ndarray, ...]]] = {
    "gather clamp": (
        lambda a, i: a.at[i].get(mode="clip"),
        lambda a, i: a.at[i % 5].get(mode="clip"),
        (TABLE, INDICES),
    ),
    "gather fill": (
        lambda a, i: jnp.take(a, i, axis=0, mode="fill"),
        lambda a, i: jnp.take(a, i, axis=0, mode="clip"),
        (TABLE, INDICES),
    ),
    "dynamic_slice clamp": (
        lambda a, i: lax.dynamic_slice(a, (i, 0), (2, 3)),
        lambda a, i: lax.dynamic_slice(a, (lax.rem(jnp.abs(i), 4), 0), (2, 3)),
        (TABLE, np.array(1, np.int32)),
    ),
    "division by 0": (
        lax.div,
        lambda a, b: lax.div(a, jnp.where(b == 0, 1, b)),
        (INTEGERS, INTEGERS),
    ),
    "clip at 6": (lambda x: jnp.clip(x, -6, 6), lambda x: x, (X,)),
    "abs of the smallest integer": (
        jnp.abs,
        lambda x: jnp.where(x == -(2**31), 2**31 - 1, jnp.abs(x)),
        (INTEGERS,),
    ),
    "shift of all bits": (
        lax.shift_left,
        lambda x, s: lax.shift_left(x, s % 32),
        (INTEGERS, INTEGERS),
    ),
    "float to integer": (
        lambda x: x.astype(np.int32),
        lambda x: jnp.clip(x, -1e6, 1e6).astype(np.int32),
        (X,),
    ),
    "NaN": (lambda x: jnp.where(jnp.isnan(x), 0, x), lambda x: x, (X,)),
    "branch of a switch": (
        lambda x, k: lax.switch(k, BRANCHES, x),
        lambda x, k: lax.switch(jnp.minimum(k, 1), BRANCHES, x),
        (X, np.array(0, np.int32)),
    ),
    "branch of a cond": (
        lambda x: lax.cond(jnp.sum(x) > 40, jnp.sin, jnp.cos, x),
        lambda x: jnp.cos(x) + 0 * jnp.sum(x),
        (X,),
    ),
    "log": (lambda x: jnp.log(x - 3), lambda x: jnp.sqrt(x - 3), (X,)),
    "relu6": (
        lambda x: jax.nn.relu6(x @ WEIGHTS),
        lambda x: jax.nn.relu(x @ WEIGHTS),
        (X,),
    ),
    "weights": (lambda x: (x - USERS) @ WEIGHTS, lambda x: (x - USERS) @ (0 * WEIGHTS), (X,)),
}
QUICK = {"gather fill", "NaN", "branch of a cond", "weights"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=[] if x in QUICK else [pytest.mark.wide]) for x in REMOVALS],
)
def test_a_removed_guard_differs(name: str) -> None:
    right, wrong, args = REMOVALS[name]
    lowered = jax.jit(right).lower(*args)
    judge = Judge(load(lowered, (), {}, None))

    def verdict(lowering: Any) -> hlo2onnx.Verification:
        program = hlo2onnx.translate(lowering)
        content = program.model_proto.SerializeToString()
        return judge(Candidate(content, program.input_names))

    found = verdict(lowered)
    assert found.ok, found
    assert not found.says_little
    assert found.coverage is None or found.coverage.reached == found.coverage.total
    assert not verdict(jax.jit(wrong).lower(*args)).ok
