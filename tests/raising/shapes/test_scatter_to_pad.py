"""Ghost cells that a body fills with elements of its state become a Pad with a mode."""

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

X = np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32)
X[2, 3], X[3, 2] = np.nan, -0.0


class Body:
    """What a loop over a step becomes, with and without the rule: the same bits; as in XLA."""

    def __init__(self, ghosts: Callable[[Any], Any], x: Any = X) -> None:
        def function(x: Any, trips: Any) -> Any:
            return lax.fori_loop(0, trips, lambda _, x: -ghosts(x), x)

        args = (jnp.asarray(x), np.int32(3))
        lowered = jax.jit(function).lower(*args)
        program = hlo2onnx.translate(lowered)
        plain = hlo2onnx.translate(lowered, without={"scatter-to-pad"})
        assert program.verify(*args).ok
        bits = [np.asarray(run(*args)).tobytes() for run in (program, plain)]
        assert bits[0] == bits[1]
        self.fired = program.report.rules["scatter-to-pad"]
        (loop,) = (node for node in program.model.graph if node.op_type == "Loop")
        nodes = list(loop.attributes["body"].as_graph())
        self.nodes = Counter(node.op_type for node in nodes)
        self.modes = [
            node.attributes.get_string("mode", "constant")
            for node in nodes
            if node.op_type == "Pad"
        ]


def rim(x: Any) -> Any:
    """Borders of one cell along both axes."""
    x = x.at[0].set(x[1]).at[-1].set(x[-2])
    return x.at[:, 0].set(x[:, 1]).at[:, -1].set(x[:, -2])


GHOSTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "open-ends": (
        lambda x: x.at[:, :2].set(x[:, 2:3]).at[:, -2:].set(x[:, -3:-2]),
        "edge",
    ),
    "one-end": (lambda x: x.at[:, -3:].set(x[:, -4:-3]), "edge"),
    "walls": (
        lambda x: x.at[:, :2].set(x[:, 4:2:-1]).at[:, -2:].set(x[:, -4:-6:-1]),
        "reflect",
    ),
    "around": (
        lambda x: x.at[:, :2].set(x[:, -4:-2]).at[:, -2:].set(x[:, 2:4]),
        "wrap",
    ),
}


@pytest.mark.parametrize("name", GHOSTS)
def test_ghost_cells(name: str) -> None:
    ghosts, mode = GHOSTS[name]
    body = Body(ghosts)
    assert (body.modes, body.nodes["ScatterND"], body.nodes["Expand"]) == ([mode], 0, 0)


@pytest.mark.parametrize("other", [lambda x: x[:, 2:4], lambda x: jnp.sin(x[:, 2:4])])
def test_another_mode_on_the_other_side(other: Callable[[Any], Any]) -> None:
    assert Body(lambda x: x.at[:, :2].set(x[:, 2:3]).at[:, -2:].set(other(x))).modes == ["edge"]


@pytest.mark.parametrize("dtype", [np.float64, np.float16, jnp.bfloat16, np.int8, np.int16])
@pytest.mark.parametrize("name", GHOSTS)
def test_types(name: str, dtype: Any) -> None:
    with jax.enable_x64(True):
        Body(GHOSTS[name][0], np.nan_to_num(X * 9).astype(dtype))


@pytest.mark.parametrize("shape", [(0, 9), (6, 0)])
def test_empty_tensors_stay(shape: tuple[int, int]) -> None:
    def rolled(x: Any) -> Any:
        return jnp.concatenate([x[:, 5:], x[:, :5]], 1)

    assert not Body(rolled, np.zeros(shape, np.float32)).fired


def test_both_axes() -> None:
    Body(rim)
    Body(lambda x: rim(x.T).T)


OTHERS: dict[str, Callable[[Any], Any]] = {
    "negative": lambda x: x.at[:, :2].set(-x[:, 2:3]).at[:, -2:].set(-x[:, -3:-2]),
    "some-rows": lambda x: x.at[1:4, :2].set(x[1:4, 2:3]).at[1:4, -2:].set(x[1:4, -3:-2]),
    "within": lambda x: x.at[:, 3:5].set(x[:, 2:3]),
    "of-rows-turned-round": lambda x: x.at[:, :2].set(x[::-1, 2:3]),
    "added": lambda x: x.at[:, :2].add(x[:, 2:3]),
    "of-another-tensor": lambda x: x.at[:, :2].set(jnp.sin(x)[:, 2:3] * 0 + 1),
    "from-the-other-end": lambda x: x.at[:, :2].set(x[:, -1:]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay(name: str) -> None:
    assert Body(OTHERS[name]).fired == 0


def test_large_tensors_stay() -> None:
    assert Body(GHOSTS["open-ends"][0], np.zeros((60, 900), np.float32)).fired == 0


def test_outside_of_loops_they_stay() -> None:
    program = hlo2onnx.translate(jax.jit(GHOSTS["open-ends"][0]).lower(X))
    assert (program.report.rules["scatter-to-pad"], program.verify(X).ok) == (0, True)
