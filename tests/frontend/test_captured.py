"""Weights that a callable holds have their own paths as names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import hlo2onnx

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 8)).astype(np.float32)
W, B = RNG.normal(size=(8, 4)).astype(np.float32), np.zeros(4, np.float32)


def affine(params: Any, x: jax.Array, *, bias: Any = 0.0) -> dict[str, jax.Array]:
    return {"y": x @ params["w"] + bias}


def layer() -> Any:
    return eqx.nn.Linear(8, 4, key=jax.random.key(0))


class Model:
    def __init__(self) -> None:
        self.w = jax.numpy.asarray(W)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.w


jax.tree_util.register_pytree_with_keys(
    Model, lambda m: ([(jax.tree_util.GetAttrKey("w"), m.w)], None), lambda _, leaves: Model()
)

CASES: dict[str, tuple[Callable[[], Any], list[str], set[str]]] = {
    "partial": (lambda: functools.partial(affine, {"w": W}), ["x"], {"params/w"}),
    "partial with keywords": (
        lambda: functools.partial(affine, {"w": W}, bias=B), ["x"], {"params/w", "bias"}
    ),
    "partial of partial": (
        lambda: functools.partial(functools.partial(affine, bias=B), {"w": W}),
        ["x"], {"params/w", "bias"},
    ),
    "vmap": (lambda: jax.vmap(layer()), ["x"], {"weight", "bias"}),
    "filter_vmap": (lambda: eqx.filter_vmap(layer()), ["x"], {"weight", "bias"}),
    "filter_jit": (lambda: eqx.filter_jit(eqx.filter_vmap(layer())), ["x"], {"weight", "bias"}),
    "method": (lambda: jax.vmap(Model().__call__), ["x"], {"w"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_paths(name: str) -> None:
    make, inputs, weights = CASES[name]
    program = hlo2onnx.translate(make(), X)
    assert program.input_names == inputs
    assert weights <= set(program.model.graph.initializers)
    assert program.verify(X).ok
    assert program.model.graph.initializers[min(weights)].const_value is not None


def test_free_dimensions_and_scopes_stay() -> None:
    program = hlo2onnx.translate(functools.partial(affine, {"w": W}), "b, 8")
    assert program.output_names == ["y"]
    assert program.verify(X).ok
    assert program(X[:1])["y"].shape == (1, 4)
    product = next(node for node in program.model.graph if node.op_type == "MatMul")
    assert "test_captured.py" in product.metadata_props["jax.source"]


@pytest.mark.wide
@pytest.mark.parametrize("jitted", [False, True])
def test_inputs_of_apply_are_those_of_the_module(jitted: bool) -> None:
    """`Module.apply` itself takes `*args`."""
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):  # type: ignore[name-defined,misc]
        @nn.compact
        def __call__(self, images: Any, scale: Any) -> Any:
            return {"logits": nn.Dense(3)(images) * scale}

    variables = Net().init(jax.random.key(0), X, X[0, 0])
    apply = jax.jit(Net().apply) if jitted else Net().apply
    program = hlo2onnx.translate(apply, variables, X, X[0, 0], bind="variables")
    assert program.input_names == ["images", "scale"]
    assert program.output_names == ["logits"]
    bound = hlo2onnx.translate(Net().bind(variables), X, X[0, 0])
    assert set(bound.weights) == {"params/Dense_0/kernel", "params/Dense_0/bias"}
    assert bound.verify(X, X[0, 0]).ok


def test_settings_are_no_weights() -> None:
    program = hlo2onnx.translate(functools.partial(lambda n, x: x * n, 3), X)
    assert program.verify(X).ok


def without_a_module() -> Any:
    """A function as `sympy.lambdify` makes it."""
    made: dict[str, Any] = {}
    exec("def shifted(x, y):\n    return x + y", made)
    made["shifted"].__module__ = None
    return made["shifted"]


class Shifted:
    """A callable object whose class has no module."""

    __module__ = None  # type: ignore[assignment]

    def __call__(self, x: jax.Array, y: jax.Array) -> jax.Array:
        return x + y


@pytest.mark.parametrize(
    "function",
    [
        without_a_module(),
        jax.jit(without_a_module()),
        jax.vmap(without_a_module()),
        functools.partial(without_a_module()),
        Shifted(),
        functools.partial(Shifted()),
        Shifted().__call__,
        jax.jit(Shifted()),
    ],
)
def test_without_a_module(function: Any) -> None:
    program = hlo2onnx.translate(function, X, X)
    assert [value.name for value in program.model.graph.inputs] == ["x", "y"]
    np.testing.assert_array_equal(program(X, X), X + X)
