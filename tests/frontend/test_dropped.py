"""The report says what the program does not read, and what looks like training."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

import hlo2onnx
from hlo2onnx.frontend.advice import DROPOUT

X = np.ones((2, 3), np.float32)


def notes(function: Any, *args: Any, **kwargs: Any) -> list[str]:
    return hlo2onnx.translate(function, *args, **kwargs).report.notes


def test_arguments_that_jit_pruned() -> None:
    def function(params: Any, x: jax.Array, step: jax.Array, *, flag: jax.Array) -> jax.Array:
        return params["a"] + x

    args = ({"a": X, "b": X}, X, np.int32(1))
    found = "the program does not read these arguments: params['b'], step, flag"
    assert notes(function, *args, flag=X) == [found]
    lowered = jax.jit(function).lower(*args, flag=X)
    assert notes(lowered) == [found.replace("params", "args[0]").replace("step", "args[2]")]
    assert notes(lambda x: x + 1, X) == []


def test_a_list_of_many_is_short() -> None:
    (note,) = notes(lambda p: p["k7"], {f"k{i}": X for i in range(9)})
    assert note.endswith("p['k0'], p['k1'], p['k2'], p['k3'], p['k4'] and 3 more")


def test_parameters_that_nothing_reads() -> None:
    params = {"a": X, "b": X}
    (note,) = notes(lambda params, x: params["a"] + x, params, X, bind="params")
    assert "params['b']" in note
    kept = jax.jit(lambda p, x: p["a"] + x, keep_unused=True)
    assert notes(kept, params, X, bind={0: params}) == [
        "the program does not read these parameters: p/b"
    ]


def test_parameters_of_a_module() -> None:
    class Half(eqx.Module):
        used: jax.Array
        spare: jax.Array

        def __call__(self, x: jax.Array) -> jax.Array:
            return x * self.used

    (note,) = notes(Half(jnp.ones(3), jnp.ones(3)), X)
    assert note == "the program does not read these arguments: self.spare"


class Net(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        x = linen.BatchNorm(use_running_average=not train)(x)
        return linen.Dropout(0.5, deterministic=not train)(x)


@pytest.mark.parametrize("train", [False, True])
def test_training_mode(train: bool) -> None:
    net = Net()
    variables = net.init(jax.random.key(0), X, False)

    def apply(variables: Any, key: jax.Array, x: jax.Array) -> Any:
        return net.apply(variables, x, train, rngs={"dropout": key}, mutable=["batch_stats"])

    found = notes(apply, variables, jax.random.key(1), X)
    if not train:
        assert found == ["the program does not read these arguments: key"]
        return
    assert DROPOUT in found
    assert any(note.startswith("the program updates batch statistics") for note in found)
