"""Caches of all layers in one array, which a step takes apart, updates and stacks again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import pytest
from every_size import arguments, every_size
from jax import lax

import hlo2onnx

Write = Callable[[jax.Array, int, jax.Array, jax.Array], jax.Array]

SPECS = {
    "free": ("b, 3, 2, t, 4, 16", "b, 1, 4, 16", "int32[]"),
    "fixed": ("2, 3, 2, 5, 4", "2, 2, 4", "int32[]"),
}


def written(part: jax.Array, number: int, new: jax.Array, at: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice_in_dim(part, new + number, at, 1)


def step(
    cache: jax.Array,
    new: jax.Array,
    at: jax.Array,
    *,
    order: Sequence[int] = range(3),
    write: Write = written,
) -> tuple[jax.Array, jax.Array]:
    """The new cache, and what a layer reads of it."""
    layers = []
    for number in order:
        layer = cache[:, number]
        both = [write(layer[:, half], 2 * number + half, new, at) for half in range(2)]
        layers.append(jnp.stack(both, axis=1))
    return jnp.stack(layers, axis=1), layers[0][:, 0] * 2


def scatters(program: object) -> bool:
    """Whether the last node of the cache is the ScatterND of the whole."""
    maker = program.model.graph.outputs[0].producer()  # type: ignore[attr-defined]
    return bool(maker.op_type == "ScatterND")


@pytest.mark.parametrize("sizes", SPECS)
def test_caches_of_layers(sizes: str) -> None:
    """One ScatterND writes into the whole, another one into what a layer reads."""
    program = every_size(step, *SPECS[sizes])
    assert scatters(program)
    assert program.report.nodes["ScatterND"] <= 3


@pytest.mark.parametrize("sizes", SPECS)
def test_caches_of_layers_by_positions(sizes: str) -> None:
    """The opset has TensorScatter."""
    program = hlo2onnx.translate(step, *SPECS[sizes], opset=24)
    assert program.report.nodes["TensorScatter"] == 2 and program.report.nodes["ScatterND"] == 0
    for size in (1, 2):
        assert program.verify(*arguments(program, size)).ok


def test_batches_by_positions() -> None:
    """TensorScatter counts them along the first axis."""

    def function(cache: jax.Array, new: jax.Array, at: jax.Array) -> jax.Array:
        return jnp.stack([written(cache[i], i, new, at) for i in range(3)])

    program = hlo2onnx.translate(function, "3, 2, t, 4, 16", "2, 1, 4, 16", "int32[]", opset=24)
    assert program.report.nodes["TensorScatter"] == 3
    assert program.verify(*arguments(program, 4)).ok


def test_parts_along_the_first_axis() -> None:
    def function(cache: jax.Array, new: jax.Array, at: jax.Array) -> jax.Array:
        return jnp.stack([written(cache[i], i, new, at) for i in range(3)])

    assert scatters(every_size(function, "3, b, t, 4, 16", "b, 1, 4, 16", "int32[]"))


def rows(part: jax.Array, number: int, new: jax.Array, at: jax.Array) -> jax.Array:
    return written(part, number, new, at + number)


def added(part: jax.Array, number: int, new: jax.Array, at: jax.Array) -> jax.Array:
    return part.at[:, jnp.array([0, 0])].add(new[:, :1] + number + at)


@pytest.mark.parametrize(
    ("order", "write"),
    [((0, 2, 1), written), ((0, 1), written), (range(3), rows), (range(3), added)],
)
def test_near_misses(order: Sequence[int], write: Write) -> None:
    """Parts in another order, or not all, or updated at other places, or with sums."""
    program = every_size(
        lambda c, n, i: step(c, n, i, order=order, write=write), *SPECS["fixed"], sizes=(1,)
    )
    assert not scatters(program)
