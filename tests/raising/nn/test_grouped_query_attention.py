"""Attention that appends to its cache itself, which `attention="gqa"` asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx

Mask = Callable[[int, int], jax.Array]

HEADS, KEY_HEADS = 4, 2


LOW = float(jnp.finfo(jnp.float32).min)


def layer(mask: Mask | None, features: int = 8, fill: float = LOW) -> Callable[..., Any]:
    """Attention of new tokens to a cache that grows, with a mask of (new tokens, all positions)."""

    def function(x: jax.Array, keys: jax.Array, values: jax.Array, *seen: jax.Array) -> Any:
        batch, new, _ = x.shape
        ends = [HEADS * features, (HEADS + KEY_HEADS) * features]
        q, k, v = jnp.split(x, ends, axis=-1)
        q = q.reshape(batch, new, KEY_HEADS, HEADS // KEY_HEADS, features)
        k, v = (y.reshape(batch, new, KEY_HEADS, features).swapaxes(1, 2) for y in (k, v))
        keys, values = (jnp.concatenate(pair, axis=2) for pair in ((keys, k), (values, v)))
        scores = jnp.einsum("bskgd,bktd->bkgst", q, keys) / 4
        shown = [] if mask is None else [mask(new, keys.shape[2])[None]]
        shown += [each[:, None] for each in seen]
        if shown:
            scores = jnp.where((shown[0] & shown[-1])[:, None, None], scores, fill)
        mixed = jnp.einsum("bkgst,bktd->bskgd", jax.nn.softmax(scores), values)
        return mixed.reshape(batch, new, HEADS * features), keys, values

    return function


def specs(batch: str, new: str, past: str, features: int = 8) -> list[str]:
    width = (HEADS + 2 * KEY_HEADS) * features
    return [f"{batch}, {new}, {width}", *[f"{batch}, {KEY_HEADS}, {past}, {features}"] * 2]


def causal(shift: int = 0) -> Mask:
    """Keys up to the position of the query, and `shift` more."""

    def mask(new: int, total: int) -> jax.Array:
        positions = jnp.arange(new) + total - new + shift
        return jnp.arange(total) <= positions[:, None]

    return mask


MASKS: dict[str, Mask] = {
    "up to the query": causal(),
    "a strict comparison": lambda new, total: (
        jnp.arange(total) < (jnp.arange(new) + (total - new + 1))[:, None]
    ),
    "the query first": lambda new, total: (
        jnp.arange(new)[:, None] + (total - new) >= jnp.arange(total)
    ),
    "positions from another start": lambda new, total: (
        jnp.arange(1, total + 1) <= jnp.arange(1, new + 1)[:, None] + total - new
    ),
}
WITH_BIAS: dict[str, Mask] = {
    "a window": lambda new, total: (
        causal()(new, total) & (jnp.arange(total) > jnp.arange(new)[:, None] + total - new - 3)
    ),
    "fewer keys": causal(-1),
}
OTHERS: dict[str, Mask | None] = {
    "no mask": None,
    "one more key": causal(1),
    "positions in the cache": lambda new, total: jnp.arange(total) <= jnp.arange(new)[:, None] + 5,
    "keys that precede": lambda new, total: (
        jnp.arange(total) >= (jnp.arange(new) + total - new)[:, None]
    ),
    "keys in steps": lambda new, total: (
        2 * jnp.arange(total) <= (jnp.arange(new) + total - new)[:, None]
    ),
}


def translated(function: Any, *arguments: str, **options: Any) -> hlo2onnx.OnnxProgram:
    return hlo2onnx.translate(function, *arguments, attention="gqa", **options)


def bias_of(program: hlo2onnx.OnnxProgram) -> bool:
    """Whether the operator has a mask."""
    (node,) = (n for n in program.model.graph.all_nodes() if n.op_type == "GroupQueryAttention")
    return len(node.inputs) > 7


def verified(program: hlo2onnx.OnnxProgram, *sizes: tuple[int, int, int]) -> None:
    """Compares with XLA for sizes of batch, new tokens and past."""
    for size in sizes:
        x, *caches = (tuple(value.shape or ()) for value in program.model.graph.inputs[:3])
        free = {str(x[0]): size[0], str(x[1]): size[1], str(caches[0][2]): size[2]}
        given = {name: size for name, size in free.items() if not name.isdigit()}
        found = program.verify(sizes=given, samples=3)
        assert found.ok, f"{size}\n{found}"


@pytest.mark.parametrize("name", [*MASKS, *WITH_BIAS])
def test_a_mask(name: str) -> None:
    mask = (MASKS | WITH_BIAS)[name]
    program = translated(layer(mask), *specs("b", "s", "p"))
    assert bias_of(program) == (name in WITH_BIAS)
    assert "attention='gqa': 1 operators" in str(program.report)
    verified(program, (1, 3, 4), (3, 1, 4), (1, 1, 1), (1, 5, 2))


@pytest.mark.parametrize("name", ["up to the query", "a window"])
def test_a_mask_that_is_constant(name: str) -> None:
    program = translated(layer((MASKS | WITH_BIAS)[name]), *specs("1", "3", "4"))
    assert bias_of(program) == (name in WITH_BIAS)
    verified(program, (1, 3, 4))


@pytest.mark.parametrize("fill", [LOW, -math.inf])
def test_padding(fill: float) -> None:
    """Only rows that see no key, as the first one, have other numbers."""
    function = layer(causal(), fill=fill)
    program = translated(function, *specs("b", "s", "p"), "bool[b, k]", constraints=["k == s + p"])
    assert bias_of(program)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(2, 5, 64)), *[rng.normal(size=(2, KEY_HEADS, 0, 8))] * 2]
    seen = np.array([[False, False, True, True, True], [True, True, False, True, True]])
    arrays = [*(each.astype(np.float32) for each in inputs), seen]
    mine, theirs = (np.asarray(each(*arrays)[0]) for each in (program, function))
    assert np.allclose(mine[0, 2:], theirs[0, 2:], atol=1e-6)
    assert np.allclose(mine[1], theirs[1], atol=1e-6)
    assert not np.allclose(mine[0, 0], theirs[0, 0], atol=1e-3, equal_nan=True)


def test_a_constant_that_broadcasts_over_keys() -> None:
    """It hides some queries, and no key that follows one of the others."""
    rows = np.array([[True], [False], [True]])
    function = layer(lambda new, total: jnp.broadcast_to(rows, (new, total)))
    program = translated(function, *specs("1", "3", "4"), "bool[1, 7]")
    assert "GroupQueryAttention" not in program.report.nodes


@pytest.mark.parametrize("name", OTHERS)
def test_masks_that_may_show_later_keys(name: str) -> None:
    program = translated(layer(OTHERS[name]), *specs("b", "s", "p"))
    assert "GroupQueryAttention" not in program.report.nodes
    assert "attention='gqa': 0 operators" in str(program.report)


def test_only_on_request() -> None:
    program = hlo2onnx.translate(layer(causal()), *specs("b", "s", "p"))
    assert "GroupQueryAttention" not in program.report.nodes


def test_features_that_are_no_multiple_of_8() -> None:
    program = translated(layer(causal(), 12), *specs("b", "s", "p", 12))
    assert "GroupQueryAttention" not in program.report.nodes


@pytest.mark.parametrize("target", ["onnx", "ort-cuda", "ort-cpu@1.23"])
def test_targets_without_the_operator(target: str) -> None:
    program = translated(layer(causal()), *specs("b", "s", "p"), target=target)
    assert "GroupQueryAttention" not in program.report.nodes
