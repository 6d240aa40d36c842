"""Constants that loop bodies and branches read: where saved models have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from hlo2onnx import OnnxProgram, translate
from hlo2onnx.runtime import serializing

RNG = np.random.default_rng(0)
LARGE = RNG.normal(size=(40, 40)).astype(np.float32)
X = RNG.normal(size=40).astype(np.float32)


def halving(x: jax.Array) -> jax.Array:
    """A loop whose body alone reads a large constant, and which has a branch."""

    def body(y: jax.Array) -> jax.Array:
        z = jnp.tanh(y @ LARGE) * 0.5
        return jax.lax.cond(z[0] > 0.25, lambda: z * 0.25, lambda: z - 0.125)

    return jax.lax.while_loop(lambda y: jnp.abs(y).sum() > 6.5, body, x)


def shared(x: jax.Array) -> jax.Array:
    """The same, with the constant read in front of the loop, too."""
    return halving(x @ LARGE)


def bodies(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """All subgraphs."""
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return inner + [each for body in inner for each in bodies(body)]


def sizes(graph: onnx.GraphProto) -> list[int]:
    return [int(np.prod(item.dims)) for item in graph.initializer]


def read_outside(graph: onnx.GraphProto, outer: frozenset[str] = frozenset()) -> set[str]:
    """The initializers of outer graphs that bodies read."""
    own = {item.name for item in graph.initializer}
    found = {name for node in graph.node for name in node.input if name in outer - own}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= read_outside(attribute.g, outer | own)
    return found


def program_of(function: Any, *args: Any, **options: Any) -> OnnxProgram:
    return translate(jax.jit(function).lower(*args), **options)


@pytest.mark.wide
def test_a_body_has_its_constants() -> None:
    program = program_of(halving, X)
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    assert not read_outside(proto.graph)
    assert 1600 not in sizes(proto.graph)
    assert sum(1600 in sizes(body) for body in bodies(proto.graph)) == 1
    names = [item.name for g in (proto.graph, *bodies(proto.graph)) for item in g.initializer]
    assert len(names) == len(set(names))
    assert program.verify(X), program.verify(X)
    (found,) = ReferenceEvaluator(proto).run(None, {program.input_names[0]: X})
    np.testing.assert_allclose(found, halving(X), atol=1e-5)
    assert LARGE.size in {v.const_value.size for v in program.model.graph.initializers.values()}


def test_a_large_constant_is_not_stored_twice() -> None:
    program = program_of(shared, X)
    proto = program.model_proto
    assert read_outside(proto.graph)
    assert sum(sizes(g).count(1600) for g in (proto.graph, *bodies(proto.graph))) == 1
    assert program.verify(X), program.verify(X)


def test_very_large_constants_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(halving, X)
    monkeypatch.setattr(serializing, "MOVED_BYTES", LARGE.nbytes - 1)
    assert 1600 in sizes(program.model_proto.graph)


@pytest.mark.parametrize("external", [False, True])
def test_saved_models(external: bool, tmp_path: Path) -> None:
    program, path = program_of(halving, X), tmp_path / "model.onnx"
    program.save(path, external_data=external)
    assert len(list(tmp_path.iterdir())) == 1 + external
    saved = onnx.load(path)
    assert not read_outside(saved.graph)
    assert 1600 not in sizes(saved.graph)
    (found,) = onnxruntime.InferenceSession(path).run(None, {program.input_names[0]: X})
    np.testing.assert_array_equal(found, program(X))


@pytest.mark.wide
def test_bodies_of_functions() -> None:
    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        return halving(x) + 1

    def model(x: jax.Array) -> jax.Array:
        y = inner(inner(x))
        return jax.lax.while_loop(lambda y: y.sum() > 1.25, lambda y: y * 0.75 - 0.5, y)

    program = program_of(model, X, functions="keep")
    assert program.model.functions
    assert not read_outside(program.model_proto.graph)
    assert program.verify(X), program.verify(X)
