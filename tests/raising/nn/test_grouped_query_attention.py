"""Attention that appends to its cache itself, which `attention="gqa"` asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest

import hlo2onnx

Mask = Callable[[int, int], jax.Array]

HEADS, KEY_HEADS = 4, 2


LOW = float(jnp.finfo(jnp.float32).min)


def layer(
    mask: Mask | None, features: int = 8, fill: float = LOW, cap: float = 0.0, zeros: bool = False
) -> Callable[..., Any]:
    """Attention of new tokens to a cache that grows, with a mask of (new tokens, all positions).

    Args:
        cap: Bound of the scores.
        zeros: Whether the mask sets weights to 0, too.
    """

    def function(x: jax.Array, keys: jax.Array, values: jax.Array, *seen: jax.Array) -> Any:
        batch, new, _ = x.shape
        ends = [HEADS * features, (HEADS + KEY_HEADS) * features]
        q, k, v = jnp.split(x, ends, axis=-1)
        q = q.reshape(batch, new, KEY_HEADS, HEADS // KEY_HEADS, features)
        k, v = (y.reshape(batch, new, KEY_HEADS, features).swapaxes(1, 2) for y in (k, v))
        keys, values = (jnp.concatenate(pair, axis=2) for pair in ((keys, k), (values, v)))
        scores = jnp.einsum("bskgd,bktd->bkgst", q, keys) / 4
        scores = cap * jnp.tanh(scores / cap) if cap else scores
        shown = [] if mask is None else [mask(new, keys.shape[2])[None]]
        shown += [each[:, None] for each in seen]
        if shown:
            scores = jnp.where((shown[0] & shown[-1])[:, None, None], scores, fill)
        weights = jax.nn.softmax(scores)
        if zeros:
            weights = jnp.where((shown[0] & shown[-1])[:, None, None], weights, 0)
        mixed = jnp.einsum("bkgst,bktd->bskgd", weights, values)
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


def floats(new: int, total: int) -> jax.Array:
    """Positions as floats, as keras-hub counts them."""
    queries = jnp.arange(new, dtype=jnp.float32) + jnp.float32(total - new)
    return queries[:, None] >= jnp.arange(total, dtype=jnp.float32)


def square(new: int, total: int, start: int | None = None) -> jax.Array:
    """Rows of a mask of all positions, 2 to either side; those of the last by default."""
    whole = jnp.ones((total, total), bool)
    whole = jnp.triu(whole, -2) * jnp.tril(whole, 2)
    rows = jax.lax.dynamic_slice(whole, (total - new if start is None else start, 0), (new, total))
    return floats(new, total) & rows


MASKS |= {"positions as floats": floats}
WINDOWS: dict[str, Mask] = {
    "a window": lambda new, total: (
        causal()(new, total) & (jnp.arange(total) > jnp.arange(new)[:, None] + total - new - 3)
    ),
    "a window that is negated": lambda new, total: (
        causal()(new, total) & ~(jnp.arange(new)[:, None] + (total - new - 3) >= jnp.arange(total))
    ),
    "the smaller of two windows": lambda new, total: (
        causal()(new, total)
        & (jnp.arange(total) >= jnp.arange(new)[:, None] + total - new - 4)
        & (jnp.arange(total) >= jnp.arange(new)[:, None] + total - new - 2)
    ),
    "rows of a square": square,
}
WITH_BIAS: dict[str, Mask] = {
    "fewer keys": causal(-1),
    "other rows of a square": lambda new, total: square(new, total, 1),
    "fewer keys in a window": lambda new, total: square(new, total) & causal(-1)(new, total),
}
OTHERS: dict[str, Mask | None] = {
    "no mask": None,
    "one more key": causal(1),
    "positions in the cache": lambda new, total: jnp.arange(total) <= jnp.arange(new)[:, None] + 5,
    "keys that precede": lambda new, total: (
        jnp.arange(total) >= (jnp.arange(new) + total - new)[:, None]
    ),
    "a window alone": lambda new, total: (
        jnp.arange(total) > jnp.arange(new)[:, None] + total - new - 3
    ),
    "halves as positions": lambda new, total: (
        jnp.arange(total) <= jnp.arange(new)[:, None] + (total - new + jnp.float32(1.5))
    ),
    "keys in steps": lambda new, total: (
        2 * jnp.arange(total) <= (jnp.arange(new) + total - new)[:, None]
    ),
}


def translated(function: Any, *arguments: str, **options: Any) -> hlo2onnx.OnnxProgram:
    return hlo2onnx.translate(function, *arguments, attention="gqa", **options)


def operator(program: hlo2onnx.OnnxProgram) -> oir.Node:
    (node,) = (n for n in program.model.graph.all_nodes() if n.op_type == "GroupQueryAttention")
    return node


def bias_of(program: hlo2onnx.OnnxProgram) -> bool:
    """Whether the operator has a mask."""
    return len(operator(program).inputs) > 7


def window_of(program: hlo2onnx.OnnxProgram) -> int:
    return operator(program).attributes.get_int("local_window_size", 0)


def verified(program: hlo2onnx.OnnxProgram, *sizes: tuple[int, int, int]) -> None:
    """Compares with XLA for sizes of batch, new tokens and past."""
    for size in sizes:
        x, *caches = (tuple(value.shape or ()) for value in program.model.graph.inputs[:3])
        free = {str(x[0]): size[0], str(x[1]): size[1], str(caches[0][2]): size[2]}
        given = {name: size for name, size in free.items() if not name.isdigit()}
        found = program.verify(sizes=given, samples=3)
        assert found.ok, f"{size}\n{found}"


Sizes = tuple[tuple[int, int, int], ...]
SIZES = [((1, 3, 4), (3, 1, 4)), ((1, 1, 1), (1, 5, 2))]
IN_A_WINDOW = [((1, 2, 0), (2, 1, 1)), ((1, 3, 0), (2, 1, 2)), ((1, 7, 0), (2, 1, 9)),
               ((1, 4, 6), (2, 1, 3))]  # fmt: skip
"""The tokens fill a part of the window, all of it, or more."""


@pytest.mark.parametrize("name", [*MASKS, *WITH_BIAS])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_mask(name: str, sizes: Sizes) -> None:
    mask = (MASKS | WITH_BIAS)[name]
    program = translated(layer(mask), *specs("b", "s", "p"))
    assert bias_of(program) == (name in WITH_BIAS)
    assert "attention='gqa': 1 operators" in str(program.report)
    verified(program, *sizes)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("cap", [0.0, 2.0])
@pytest.mark.parametrize("sizes", IN_A_WINDOW)
def test_a_window(name: str, cap: float, sizes: Sizes) -> None:
    program = translated(layer(WINDOWS[name], cap=cap), *specs("b", "s", "p"))
    assert window_of(program) == 3
    assert not bias_of(program)
    assert operator(program).attributes.get_float("softcap", 0.0) == cap
    verified(program, *sizes)


@pytest.mark.parametrize("name", ["up to the query", "a window", "fewer keys"])
def test_a_mask_that_is_constant(name: str) -> None:
    mask = (MASKS | WINDOWS | WITH_BIAS)[name]
    program = translated(layer(mask), *specs("1", "3", "4"))
    assert bias_of(program) == (name in WITH_BIAS)
    assert window_of(program) == 3 * (name in WINDOWS)
    verified(program, (1, 3, 4))


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("fill", "cap"), [(LOW, 5.0), (-math.inf, 5.0), (-1e9, 5.0), (LOW, 0.0), (-math.inf, 0.0)]
)
@pytest.mark.parametrize("sizes", SIZES)
def test_a_cap(fill: float, cap: float, zeros: bool, sizes: Sizes) -> None:
    function = layer(causal(), fill=fill, cap=cap, zeros=zeros)
    program = translated(function, *specs("b", "s", "p"))
    assert operator(program).attributes.get_float("softcap", 0) == cap
    verified(program, *sizes)


@pytest.mark.parametrize(
    "function",
    [
        layer(causal(), fill=-1e9),  # a score may be lower
        layer(causal(), fill=-1000, cap=50),
        layer(causal(), cap=-5.0),
        layer(causal(1), cap=5.0),
        layer(WITH_BIAS["fewer keys"], zeros=True),  # the first query may see no key
    ],
)
def test_what_is_no_capped_attention(function: Any) -> None:
    program = translated(function, *specs("b", "s", "p"))
    assert {"Attention", "GroupQueryAttention"}.isdisjoint(program.report.nodes)


@pytest.mark.parametrize("kind", [{"cap": 5.0}, {"zeros": True}])
def test_a_cap_without_the_request(kind: dict[str, Any]) -> None:
    """ONNX Runtime 1.23 gives NaN, and not 0, where a query sees no key."""
    program = hlo2onnx.translate(layer(causal(), **kind), *specs("b", "s", "p"))
    assert {"Attention", "GroupQueryAttention"}.isdisjoint(program.report.nodes)


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
