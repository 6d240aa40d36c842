"""Rotary embeddings become the operator, in whatever way they are written and laid out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from verified import verified

import hlo2onnx

RNG = np.random.default_rng(0)
B, T, H, D = 2, 5, 3, 8
Rotate = Callable[[Any, Any, Any], Any]


def halves(x: Any, cos: Any, sin: Any) -> Any:
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def other_order(x: Any, cos: Any, sin: Any) -> Any:
    n = x.shape[-1] // 2
    a, b = x[..., :n], x[..., n:]
    return jnp.concatenate([cos * a - sin * b, sin * a + cos * b], axis=-1)


def neighbours(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)


def columns(x: Any, cos: Any, sin: Any) -> Any:
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)


def turned(x: Any, cos: Any, sin: Any) -> Any:
    a, b = jnp.split(x, 2, axis=-1)
    cos, sin = (jnp.concatenate([y, y], axis=-1) for y in (cos, sin))
    return x * cos + jnp.concatenate([-b, a], axis=-1) * sin


def stacked(x: Any, cos: Any, sin: Any) -> Any:
    """As GPT-J and RoFormer do."""
    pair = jnp.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
    cos, sin = (jnp.repeat(y, 2, axis=-1) for y in (cos, sin))
    return x * cos + pair * sin


WAYS: dict[str, Rotate] = {
    way.__name__: way for way in (halves, other_order, neighbours, columns, turned, stacked)
}


def angles(*shape: int) -> np.ndarray:
    return RNG.normal(size=(*shape, D // 2)).astype(np.float32)


LAYOUTS: dict[str, tuple[tuple[int, ...], np.ndarray]] = {
    "tokens-then-heads": ((B, T, H, D), angles(T, 1)),
    "heads-then-tokens": ((B, H, T, D), angles(T)),
    "own-positions": ((B, T, H, D), angles(B, T, 1)),
    "no-heads": ((B, T, D), angles(T)),
    "no-batch": ((T, D), angles(T)),
}


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
def test_rotations_become_the_operator(way: str, layout: str, is_constant: bool) -> None:
    rotate, (shape, angle) = WAYS[way], LAYOUTS[layout]
    x = RNG.normal(size=shape).astype(np.float32)
    if is_constant:
        program = verified(lambda x: rotate(x, jnp.cos(angle), jnp.sin(angle)), x)
    else:
        program = verified(lambda x, y: rotate(x, jnp.cos(y), jnp.sin(y)), x, angle)
    nodes = program.report.nodes
    # Of a matrix and a matrix of angles, the Reshapes of the stack and the angles cancel out.
    assert nodes["RotaryEmbedding"] == ((way, layout) != ("stacked", "no-batch"))


def test_tables_of_angles_are_read_by_position() -> None:
    """The table is a constant; at run time rows are taken."""
    table = angles(64)
    both = jnp.concatenate([table, table], axis=-1)
    x = RNG.normal(size=(1, H, T, D)).astype(np.float32)

    def function(x: Any, positions: Any) -> Any:
        a, b = jnp.split(x, 2, axis=-1)
        cos, sin = jnp.cos(both)[positions], jnp.sin(both)[positions]
        return x * cos + jnp.concatenate([-b, a], axis=-1) * sin

    program = verified(function, x, np.arange(T) + 7)
    assert program.report.nodes["RotaryEmbedding"] == 1


@pytest.mark.parametrize("rotate", [halves, stacked])
def test_some_of_the_features(rotate: Rotate) -> None:
    angle = angles(T, 1)

    def function(x: Any) -> Any:
        rotated = rotate(x[..., :D], jnp.cos(angle), jnp.sin(angle))
        return jnp.concatenate([rotated, x[..., D:]], axis=-1)

    program = verified(function, RNG.normal(size=(B, T, H, 12)).astype(np.float32))
    assert program.report.nodes["RotaryEmbedding"] == 1


@pytest.mark.parametrize("rotate", [halves, stacked])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_symbolic_batch(batch: int, rotate: Rotate) -> None:
    angle = angles(T, 1)
    function = jax.jit(lambda x: rotate(x, jnp.cos(angle), jnp.sin(angle)))
    program = hlo2onnx.translate(function, f"b, {T}, {H}, {D}")
    x = RNG.normal(size=(batch, T, H, D)).astype(np.float32)
    assert program.verify(x).ok
    assert program.report.nodes["RotaryEmbedding"] == 1


@pytest.mark.wide
@pytest.mark.parametrize("rotate", [turned, stacked])
def test_sines_and_cosines_of_one_table(rotate: Rotate) -> None:
    """With positions of a free batch, as Llama and GPT-J read them."""
    table = jnp.concatenate([jnp.sin(y := angles(64)), jnp.cos(y)], axis=-1)

    def function(x: Any, positions: Any) -> Any:
        sin, cos = jnp.split(table[positions], 2, axis=-1)
        return rotate(x, cos[:, :, None], sin[:, :, None])

    dims = {0: f"b, t, {H}, {D}", 1: "b, t"}
    x = RNG.normal(size=(B, T, H, D)).astype(np.float32)
    positions = np.tile(np.arange(T, dtype=np.int32), (B, 1))
    program = hlo2onnx.translate(function, x, positions, dynamic=dims)
    assert program.verify(x, positions).ok
    assert program.report.nodes["RotaryEmbedding"] == 1 and len(program.model.graph) <= 9


def keras(x: Any, angle: Any) -> Any:
    """As keras-hub does: halves are stacked and flattened."""

    def flat(one: Any, other: Any) -> Any:
        pair = jnp.stack([one, other], axis=-2)
        return pair.reshape(*one.shape[:-1], -1)

    a, b = jnp.split(x, 2, axis=-1)
    angles = flat(angle, angle)[:, :, None]
    return x * jnp.cos(angles) + flat(-b, a) * jnp.sin(angles)


@pytest.mark.parametrize("dynamic", [None, {0: f"b, t, {H}, {D}", 1: "b, t"}])
def test_halves_that_are_stacked(dynamic: Any) -> None:
    """Sines and cosines are computed once for both halves."""
    frequencies = angles(1)[0]

    def function(x: Any, positions: Any) -> Any:
        return keras(x, positions[..., None] * frequencies)

    x = RNG.normal(size=(B, T, H, D)).astype(np.float32)
    positions = np.tile(np.arange(T, dtype=np.float32), (B, 1))
    program = hlo2onnx.translate(function, x, positions, dynamic=dynamic)
    assert program.verify(x, positions).ok
    nodes = program.report.nodes
    assert nodes["RotaryEmbedding"] == 1 and not nodes["Concat"] and not nodes["Slice"]


def test_special_values() -> None:
    x = RNG.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], (B, T, H, D)).astype(np.float32)
    angle = RNG.choice([0.0, 1.0], (T, 1, D // 2)).astype(np.float32)
    verified(lambda x: halves(x, angle, 1 - angle), x)


def test_scalars_beside_what_is_joined() -> None:
    """A sum of products one of which holds a number from nobody knows where."""

    def function(x: jax.Array, y: jax.Array, s: jax.Array) -> jax.Array:
        return s * y + jnp.concatenate([-x[2:], x[:2]]) * y

    x, y = RNG.normal(size=(2, 4)).astype(np.float32)
    assert not verified(function, x, y, np.float32(2)).report.nodes["RotaryEmbedding"]


W = RNG.normal(size=(16, H * D)).astype(np.float32)


def interleaved(x: Any, angle: Any, w: Any = W, order: int = 1) -> Any:
    """As Gemma of keras-hub: halves are rotated, and stacked as neighbors."""
    product = (x @ w).reshape(*x.shape[:-1], H, D)
    a, b = jnp.split(halves(product, jnp.cos(angle), jnp.sin(angle)), 2, axis=-1)
    return jnp.stack([a, b][::order], axis=-1).reshape(product.shape)


@pytest.mark.parametrize("dims", [None, {0: "b, t, 16", 1: "t, 1, 4"}])
def test_halves_that_are_interleaved_afterwards(dims: Any) -> None:
    """The columns of the weight are in the order of neighbors."""
    x, angle = RNG.normal(size=(B, T, 16)).astype(np.float32), angles(T, 1)
    program = hlo2onnx.translate(interleaved, x, angle, dynamic=dims)
    assert program.verify(x, angle).ok
    nodes = program.report.nodes
    assert nodes["RotaryEmbedding"] == nodes["MatMul"] == 1
    assert not nodes["Split"] and not nodes["Unsqueeze"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, angle: interleaved(x, angle, order=-1),
        lambda x, angle: (interleaved(x, angle), x @ W),
        lambda x, angle: interleaved(x, angle, x[0, :1].T * W),
        lambda x, angle: (interleaved(x, angle), (x + 1) @ W),
    ],
    ids=["another order", "a product with other readers", "no weight", "a weight read twice"],
)
def test_halves_that_stay(function: Any) -> None:
    x, angle = RNG.normal(size=(B, T, 16)).astype(np.float32), angles(T, 1)
    (node,) = (
        node
        for node in verified(function, x, angle).model.graph.all_nodes()
        if node.op_type == "RotaryEmbedding"
    )
    assert "interleaved" not in node.attributes
