"""What is done in bodies of loops and branches only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx

X = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)


def inside(step: Callable[[Any], Any], x: Any = X, **options: Any) -> Counter[str]:
    """The operators of a body that does this to a state, which ends up as in XLA."""

    def function(x: Any, trips: Any) -> Any:
        return lax.fori_loop(0, trips, lambda _, x: step(x), x)

    args = (x, np.int32(3))
    program = hlo2onnx.translate(jax.jit(function).lower(*args), **options)
    report = program.verify(*args)
    assert report.ok, report
    (loop,) = (node for node in program.model.graph if node.op_type == "Loop")
    return Counter(node.op_type for node in loop.attributes["body"].as_graph())


SPLIT: dict[str, tuple[Callable[[Any], Any], int]] = {
    "rows": (lambda x: jnp.concatenate([jnp.sin(x[4:]), x[2:4] * 2, jnp.tanh(x[:2])]), 0),
    "columns": (lambda x: jnp.concatenate([jnp.sin(x[:, 4:]), jnp.tanh(x[:, :4])], 1), 0),
    "unlike": (lambda x: jnp.concatenate([jnp.sin(x[5:]), x[:1], jnp.tanh(x[1:5])]), 0),
    "three-of-some-rows": (lambda x: x * (jnp.sin(x[1:2]) + jnp.tanh(x[2:3]) * x[3:4]), 1),
    "three-of-every-other-column": (
        lambda x: jnp.tile(jnp.sin(x[:2, ::2]) * x[2:4, ::2] - x[4:, ::2], (3, 2)),
        1,
    ),
}
"""Steps, and the Slices that are left of them beside one Split."""


@pytest.mark.parametrize("name", SPLIT)
def test_slices_become_a_split(name: str) -> None:
    step, slices = SPLIT[name]
    found = inside(step)
    assert (found["Split"], found["Slice"]) == (1, slices)
    assert inside(step, without={"slices-to-split"})["Split"] == 0


SLICES: dict[str, Callable[[Any], Any]] = {
    "one": lambda x: x * jnp.sin(x[:1]),
    "two-of-some-rows": lambda x: x * jnp.sin(x[1:2]) * x[2:3],
    "overlapping": lambda x: jnp.concatenate([jnp.sin(x[:4]), x[3:5]]),
    "a-gap-between": lambda x: jnp.concatenate([jnp.sin(x[:2]), x[3:], x[5:] * 2]),
    "of-unlike-columns": lambda x: x * (jnp.sin(x[:3, :1]) + x[3:, 1:2]).sum(0),
    "one-of-all-columns": lambda x: x * (jnp.sin(x[:1, :1]) * x[:1]),
    "every-other": lambda x: jnp.concatenate([jnp.sin(x[::2]), x[1::2]]),
    "of-two-tensors": lambda x: jnp.concatenate([jnp.sin(x)[:3] * 2, x[3:] + 1]),
}


@pytest.mark.parametrize("name", SLICES)
def test_other_slices_stay(name: str) -> None:
    assert inside(SLICES[name])["Split"] == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.bool_, jnp.bfloat16, np.complex64])
def test_splits_of_other_types(dtype: Any) -> None:
    x = (X > 0).astype(dtype)
    found = inside(lambda x: jnp.concatenate([x[4:] | x[2:4], x[2:4], x[:2]])
                   if x.dtype.kind in "iub" else jnp.concatenate([x[4:], x[2:4] * x[:2], x[:2]]),
                   jnp.asarray(x))  # fmt: skip
    assert found["Split"]


def test_outside_of_loops_slices_stay() -> None:
    program = hlo2onnx.translate(jax.jit(SPLIT["rows"][0]).lower(X))
    assert Counter(node.op_type for node in program.model.graph)["Split"] == 0
    assert program.verify(X).ok


def test_splits_in_a_branch() -> None:
    function = lambda x: lax.cond(x[0, 0] > 0, SPLIT["rows"][0], jnp.sin, x)  # noqa: E731
    program = hlo2onnx.translate(jax.jit(function).lower(X))
    found = Counter(node.op_type for node in program.model.graph.all_nodes())
    assert (found["Split"], program.verify(X).ok) == (1, True)
    assert program.verify(-X).ok


def test_what_a_body_returns_is_split() -> None:
    """Pieces that are results of the body themselves."""

    def step(state: Any, _: Any) -> Any:
        one, other = state
        both = jnp.sin(jnp.concatenate([one, other]) * other[0])
        return (both[3:], both[:3]), both[:3]

    def function(x: Any) -> Any:
        return lax.scan(step, (x[:3], x[3:]), length=70)

    program = hlo2onnx.translate(jax.jit(function).lower(X))
    assert program.report.rules["slices-to-split"] == 1
    assert program.verify(X).ok
