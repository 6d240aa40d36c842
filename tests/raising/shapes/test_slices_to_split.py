"""Slices that follow each other, in bodies of loops and branches and elsewhere."""

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


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.bool_, jnp.bfloat16, np.complex64])
def test_splits_of_other_types(dtype: Any) -> None:
    x = (X > 0).astype(dtype)
    found = inside(lambda x: jnp.concatenate([x[4:] | x[2:4], x[2:4], x[:2]])
                   if x.dtype.kind in "iub" else jnp.concatenate([x[4:], x[2:4] * x[:2], x[:2]]),
                   jnp.asarray(x))  # fmt: skip
    assert found["Split"]


def outside(function: Callable[..., Any], *args: Any, **options: Any) -> Counter[str]:
    """The operators of a function without loops, which gives what XLA gives."""
    program = hlo2onnx.translate(jax.jit(function).lower(*args), **options)
    report = program.verify(*args)
    assert report.ok, report
    return Counter(node.op_type for node in program.model.graph)


def heads(x: Any) -> Any:
    q, k, v = jnp.split(x @ X.T, 3, axis=1)
    return jax.nn.softmax(q @ k.T) @ v


WHOLE: dict[str, Callable[[Any], Any]] = {
    "rows": SPLIT["rows"][0],
    "columns": SPLIT["columns"][0],
    "unlike": SPLIT["unlike"][0],
    "query-key-value": heads,
    "gated": lambda x: x[:, :4] * jax.nn.sigmoid(x[:, 4:]),
    "turned": lambda x: x * 2 + jnp.concatenate([-x[:, 4:], x[:, :4]], axis=1),
    "unstacked": lambda x: jnp.sin(x[0]) * x[1] + x[2] * jnp.cos(x[3]) + x[4] ** 2 + x[5],
    "results": lambda x: jnp.split(x, 2),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", WHOLE)
def test_all_slices_of_a_tensor(name: str) -> None:
    found = outside(WHOLE[name], X)
    assert (found["Split"], found["Slice"]) == (1, 0)
    assert outside(WHOLE[name], X, without={"slices-to-split"})["Split"] == 0


@pytest.mark.wide
def test_associative_scans_split_columns() -> None:
    """Parts of rows with a step: the rows are sliced once."""
    x = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)

    def combine(a: Any, b: Any) -> Any:
        p, q, r, s = jnp.split(a, 4, -1)
        t, u, v, w = jnp.split(b, 4, -1)
        return jnp.concatenate([p * t + q * v, p * u + q * w, r * t + s * v, r * u + s * w], -1)

    function = lambda x: lax.associative_scan(combine, x)  # noqa: E731
    found, apart = (outside(function, x, without=off) for off in ((), {"slices-to-split"}))
    assert found["Split"] >= 4
    assert found.total() < apart.total() - 8


def test_a_split_of_any_number_of_rows() -> None:
    (n,) = jax.export.symbolic_shape("n")
    spec = jax.ShapeDtypeStruct((n, 8), np.float32)
    program = hlo2onnx.translate(jax.export.export(jax.jit(WHOLE["gated"]))(spec))
    assert (program.report.nodes["Split"], program.report.nodes["Slice"]) == (1, 0)
    for rows in (1, 6):
        assert program.verify(X[:rows]).ok


def test_symbolic_rows_are_not_split() -> None:
    (n,) = jax.export.symbolic_shape("n", constraints=["n >= 3"])
    spec = jax.ShapeDtypeStruct((n, 8), np.float32)
    function = lambda x: jnp.sin(x[:2]).sum() + jnp.tanh(x[2:])  # noqa: E731
    program = hlo2onnx.translate(jax.export.export(jax.jit(function))(spec))
    assert program.report.nodes["Split"] == 0
    for rows in (3, 6):
        assert program.verify(X[:rows]).ok


def test_shapes_stay_slices() -> None:
    function = lambda x: (x[:3] * 2, x[3:] + 1)  # noqa: E731
    with jax.enable_x64(True):
        assert outside(function, np.arange(6))["Split"] == 0
    assert outside(function, np.arange(6, dtype=np.int32))["Split"] == 1


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
    assert program.report.rules["slices-to-split"] == 2, "one of what it is given"
    assert program.verify(X).ok
