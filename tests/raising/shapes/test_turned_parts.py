"""Parts of a cache of all layers that are updated and turned: gathered once, in their new order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx

LAYERS = 2


def layers(cache: jax.Array, new: jax.Array, at: jax.Array) -> tuple[jax.Array, ...]:
    """Products of new rows with the keys of each layer, and of these with its values."""
    mixed, after = [], []
    for layer in range(LAYERS):
        keys, values = (
            lax.dynamic_update_slice_in_dim(cache[:, layer][:, part], new, at, 1) for part in (0, 1)
        )
        found = jnp.tanh(jnp.einsum("bshd,bthd->bhst", new, keys))
        mixed.append(jnp.einsum("bhst,bthd->bshd", found, values))
        after.append(jnp.stack([keys, values], 1))
    return jnp.stack(mixed), jnp.stack(after, 1)


def translated(function: Any, tokens: str) -> hlo2onnx.OnnxProgram:
    cache, new = f"b, {LAYERS}, 2, {tokens}, 3, 64", "b, s, 3, 64"
    more: Any = {"constraints": ["t >= s"]} if tokens == "t" else {"constraints": ["s <= 7"]}
    return hlo2onnx.translate(function, cache, new, "int32[]", opset=24, **more)


def verified(program: hlo2onnx.OnnxProgram) -> None:
    for sizes in ({"b": 2, "s": 2, "t": 5}, {"b": 1, "s": 1, "t": 4}):
        free = {str(dim) for x in program.model.graph.inputs for dim in x.shape or ()}
        given = {name: size for name, size in sizes.items() if name in free}
        found = program.verify(sizes=given, samples=3)
        assert found.ok, found


@pytest.mark.parametrize("tokens", ["t", "7"])
def test_parts_are_copied_once(tokens: str) -> None:
    program = translated(layers, tokens)
    verified(program)
    assert program.report.rules["turned-part"] == 2 * LAYERS
    assert program.report.nodes["Gather"] == 2 * LAYERS
    large = [n for n in program.model.graph if n.op_type == "Transpose" and has_cache(n)]
    swaps = [tuple(n.attributes["perm"].as_ints()) for n in large]
    assert swaps == [(0, 1, 3, 2)] * LAYERS  # ONNX Runtime multiplies by their operand


def has_cache(node: Any) -> bool:
    """Whether it turns as many tokens as the cache has."""
    return any(str(dim) in ("t", "7") for dim in node.outputs[0].shape)


def one_layer(read: Callable[..., jax.Array], perm: tuple[int, ...]) -> Callable[..., Any]:
    """A part that is updated and turned; the rest of the cache is not needed."""

    def function(cache: jax.Array, new: jax.Array, at: jax.Array, layer: jax.Array) -> jax.Array:
        keys = lax.dynamic_update_slice_in_dim(read(cache, layer), new, at, 1)
        return keys.transpose(perm)

    return function


TURN = (0, 2, 1, 3)
SPECS = ("b, 3, t, 2, 64", "b, s, 2, 64", "int32[]", "int32[]")
NEAR_MISSES: dict[str, tuple[Callable[..., jax.Array], tuple[int, ...], tuple[str, ...]]] = {
    "a computed layer": (lambda cache, layer: jnp.take(cache, layer, 1), TURN, SPECS),
    "short rows": (
        lambda cache, _: cache[:, 1], TURN, ("b, 3, t, 2, 32", "b, s, 2, 32", *SPECS[2:])
    ),
    "features among the rows": (lambda cache, _: cache[:, 1], (0, 3, 1, 2), SPECS),
    "batches move": (lambda cache, _: cache[:, 1], (1, 0, 2, 3), SPECS),
    "rows in order": (lambda cache, _: cache[:, 1], (0, 1, 3, 2), SPECS),
    "no part": (lambda cache, _: jnp.exp(cache[:, 1]), TURN, SPECS),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(name: str) -> None:
    read, perm, specs = NEAR_MISSES[name]
    program = hlo2onnx.translate(one_layer(read, perm), *specs, opset=24, constraints=["t >= s"])
    assert not program.report.rules["turned-part"]


def test_parts_of_a_split() -> None:
    def function(cache: jax.Array, new: jax.Array, at: jax.Array) -> list[jax.Array]:
        parts = [cache[:, layer] for layer in range(3)]
        return [lax.dynamic_update_slice(x, new, (0, at, 0, 0)).transpose(TURN) for x in parts]

    program = hlo2onnx.translate(function, "2, 3, 5, 2, 64", "2, 1, 2, 64", "int32[]", opset=24)
    assert program.report.rules["turned-part"] == 3 and not program.report.nodes["Split"]
    assert program.verify(samples=3).ok


@pytest.mark.parametrize("perm", [TURN, (0, 2, 3, 1)])
def test_a_part_alone(perm: tuple[int, ...]) -> None:
    function = one_layer(lambda cache, _: cache[:, 1], perm)
    program = hlo2onnx.translate(function, *SPECS, opset=24, constraints=["t >= s"])
    assert program.report.rules["turned-part"] == 1
    rng = np.random.default_rng(0)
    cache, new = (rng.normal(size=(2, *dims, 2, 64)).astype(np.float32) for dims in ((3, 5), (2,)))
    for at in (-1, 0, 2, 9):
        given = (cache, new, np.int32(at), np.int32(0))
        np.testing.assert_array_equal(program(*given), jax.jit(function)(*given))


def test_parts_that_others_read() -> None:
    def function(cache: jax.Array, new: jax.Array, at: jax.Array) -> tuple[jax.Array, ...]:
        keys = lax.dynamic_update_slice_in_dim(cache[:, 1], new, at, 1)
        return keys.transpose(TURN), jnp.exp(keys)

    program = hlo2onnx.translate(function, *SPECS[:3], opset=24, constraints=["t >= s"])
    assert not program.report.rules["turned-part"]
