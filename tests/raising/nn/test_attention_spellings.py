"""Attention as programs and libraries write it, with fixed and with free sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from every_size import every_size
from jax import lax

Spelling = tuple[Callable[..., Any], tuple[str, ...]]
attention = jax.nn.dot_product_attention

Q, K, GROUPED = "b, s, 4, 16", "b, t, 4, 16", "b, t, 2, 16"
SPLIT = "b, s, 2, 3, 16"
MASK = "bool[b, s, t]"


def by_einsum(scores: str, mixed: str, *, first: bool = True) -> Callable[..., Any]:
    """Attention by two products, with the scale on the queries (`first`) or on the scores."""

    def function(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        if first:
            q = q * q.shape[-1] ** -0.5
        logits = jnp.einsum(scores, q, k)
        if not first:
            logits = logits / math.sqrt(q.shape[-1])
        return jnp.einsum(mixed, jax.nn.softmax(logits), v)

    return function


def merged(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Groups and queries in one axis of the products."""
    batch, tokens, heads, features = q.shape
    keys, kv = k.shape[1:3]
    groups = heads // kv
    q = q.reshape(batch, tokens, kv, groups, features).transpose(0, 2, 3, 1, 4)
    scores = q.reshape(batch, kv, groups * tokens, features) @ k.transpose(0, 2, 3, 1) / 4
    scores = scores.reshape(batch, kv, groups, tokens, keys)
    scores = jnp.where(mask[:, None, None], scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores).reshape(batch, kv, groups * tokens, keys)
    mixed = (weights @ v.transpose(0, 2, 1, 3)).reshape(batch, kv, groups, tokens, features)
    return mixed.transpose(0, 3, 1, 2, 4).reshape(batch, tokens, heads * features)


def repeated(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Heads of keys that are repeated for each query head."""
    return repeated_heads(q, jnp.repeat(k, 2, axis=2), jnp.repeat(v, 2, axis=2))


def repeated_heads(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Attention of as many heads of keys as of queries."""
    weights = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k) / 4)
    return jnp.einsum("bhst,bthd->bshd", weights, v)


def repeated_first(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """The same with heads before tokens, by a broadcast."""
    k, v = (jnp.broadcast_to(x[:, :, None], (*x.shape[:2], 2, *x.shape[2:])) for x in (k, v))
    k, v = (x.reshape(x.shape[0], 4, *x.shape[3:]) for x in (k, v))
    return jax.nn.softmax(q @ k.swapaxes(2, 3) / 4) @ v


def tunix(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Llama 3 of tunix: heads of one group are joined between the products."""
    batch, tokens, heads, features = q.shape
    length, kv = k.shape[1:3]
    q = q.reshape(batch, tokens, kv, heads // kv, features)
    logits = jnp.einsum("bthgd,bshd->bhgts", q, k) * features**-0.5
    logits = logits.reshape(batch, heads, tokens, length)
    weights = jax.nn.softmax(jnp.where(mask[:, None], logits, -2.3819763e38))
    weights = weights.reshape(batch, kv, heads // kv, tokens, length)
    return jnp.einsum("bhgts,bshd->bthgd", weights, v).reshape(batch, tokens, heads, features)


def added(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """The layer of keras, which adds a large number to masked scores."""
    logits = jnp.einsum("aecd,abcd->acbe", k, q / 4) + (1.0 - mask[:, None]) * -1e9
    return jnp.einsum("acbe,aecd->abcd", jax.nn.softmax(logits), v)


SPELLINGS: dict[str, Spelling] = {
    "jax": (attention, (Q, K, K)),
    "jax, a scale": (lambda q, k, v: attention(q, k, v, scale=0.3), (Q, K, K)),
    "jax, causal": (lambda q, k, v: attention(q, k, v, is_causal=True), (Q, K, K)),
    "jax, groups": (attention, (Q, GROUPED, GROUPED)),
    "jax, causal groups": (
        lambda q, k, v: attention(q, k, v, is_causal=True), (Q, GROUPED, GROUPED)
    ),
    "jax, a mask of groups": (
        lambda q, k, v, m: attention(q, k, v, mask=m), (Q, GROUPED, GROUPED, "bool[b, 1, s, t]")
    ),
    "jax, a mask of heads": (
        lambda q, k, v, m: attention(q, k, v, mask=m), (Q, K, K, "bool[b, 4, s, t]")
    ),
    "jax, a bias": (lambda q, k, v, m: attention(q, k, v, bias=m), (Q, K, K, "b, 4, s, t")),
    "jax, a bias of groups": (
        lambda q, k, v, m: attention(q, k, v, bias=m), (Q, GROUPED, GROUPED, "1, 1, s, t")
    ),
    "keys after heads": (
        by_einsum("bhsd,bhtd->bhst", "bhst,bhtd->bhsd"), ("b, 4, s, 16", *["b, 4, t, 16"] * 2)
    ),
    "heads after queries": (by_einsum("bshd,bthd->bsht", "bsht,bthd->bshd"), (Q, K, K)),
    "one head": (by_einsum("sd,td->st", "st,td->sd", first=False), ("s, 16", "t, 16", "t, 16")),
    "groups": (by_einsum("bshgd,bthd->bhgst", "bhgst,bthd->bshgd"), (SPLIT, GROUPED, GROUPED)),
    "groups of a cache": (
        by_einsum("bshgd,bhtd->bhgst", "bhgst,bhtd->bshgd", first=False),
        (SPLIT, *["b, 2, t, 16"] * 2),
    ),
    "groups after queries": (
        by_einsum("bshgd,bthd->bshgt", "bshgt,bthd->bshgd", first=False), (SPLIT, GROUPED, GROUPED)
    ),
    "groups with queries": (merged, (Q, GROUPED, GROUPED, MASK)),
    "repeated heads": (repeated, (Q, GROUPED, GROUPED)),
    "repeated heads first": (repeated_first, (Q.replace("s, 4", "4, s"), *["b, 2, t, 16"] * 2)),
    "tunix": (tunix, (Q, GROUPED, GROUPED, MASK)),
    "an added mask": (added, (Q, K, K, MASK)),
}  # fmt: skip


@pytest.mark.parametrize("sizes", ["free", "fixed"])
@pytest.mark.parametrize("name", SPELLINGS)
def test_attention(name: str, sizes: str) -> None:
    """It becomes the operator, and the scores, the largest tensor, do not appear."""
    function, specs = SPELLINGS[name]
    if sizes == "fixed":
        table = str.maketrans({"s": "6", "t": "7"})
        specs = tuple(spec.translate(table).replace("b,", "2,") for spec in specs)
    program = every_size(function, *specs)
    assert program.report.nodes["Attention"] == 1
    assert not program.report.nodes["Softmax"]
    assert "repeated" not in name or not program.report.nodes["Expand"]


@pytest.mark.parametrize("which", ["blocks", "keys only"])
def test_other_repetitions(which: str) -> None:
    """Heads of q share none where k repeats blocks of heads, or repeats more than v does."""

    def function(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        tiled = jnp.tile(k, (1, 1, 2, 1)) if which == "blocks" else jnp.repeat(k, 2, axis=2)
        return repeated_heads(q, tiled, jnp.tile(v, (1, 1, 2, 1)))

    assert every_size(function, Q, GROUPED, GROUPED).report.nodes["Expand"]


def projected(
    x: jax.Array, w: jax.Array, keys: jax.Array, values: jax.Array, *, causal: bool = False
) -> tuple[jax.Array, ...]:
    """Attention of a layer with 4 heads, 2 of keys, whose cache grows."""
    batch, tokens, _ = x.shape
    q, k, v = (x @ w[:, start:stop] for start, stop in ((0, 8), (8, 12), (12, 16)))
    q = q.reshape(batch, tokens, 2, 2, 2)
    k, v = (y.reshape(batch, tokens, 2, 2).swapaxes(1, 2) for y in (k, v))
    keys, values = (jnp.concatenate(pair, axis=2) for pair in ((keys, k), (values, v)))
    scores = jnp.einsum("bskgd,bktd->bkgst", q, keys) / 2
    if causal:
        mask = jnp.arange(keys.shape[2]) <= jnp.arange(tokens)[:, None] + keys.shape[2] - tokens
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    mixed = jnp.einsum("bkgst,bktd->bskgd", jax.nn.softmax(scores), values)
    return mixed.reshape(batch, tokens, 8), keys, values


CACHE = ("b, s, 5", "5, 16", *["b, 2, p, 2"] * 2)


@pytest.mark.parametrize("causal", [False, True])
def test_a_cache_that_grows(causal: bool) -> None:
    """The operator appends to it, and takes projections as they are."""
    program = every_size(partial(projected, causal=causal), *CACHE)
    nodes = program.report.nodes
    assert nodes["Attention"] == 1 and not nodes["Concat"] + nodes["Transpose"] + nodes["Softmax"]
    assert len(program.model.graph.outputs) == 3


def test_a_cache_with_other_readers() -> None:
    def program(*args: jax.Array) -> tuple[jax.Array, ...]:
        mixed, keys, values = projected(*args)
        return mixed, keys, values.sum()

    nodes = every_size(program, *CACHE).report.nodes
    assert nodes["Attention"] == 1 and nodes["Concat"] == 2


def test_a_cache_of_keys_alone() -> None:
    """The values have none: they are those of the new tokens and of the old ones."""

    def program(x: jax.Array, w: jax.Array, keys: jax.Array) -> jax.Array:
        return projected(x, w, keys, keys[..., ::-1])[0]

    nodes = every_size(program, *CACHE[:3]).report.nodes
    assert nodes["Attention"] == 1 and not nodes["Concat"]


@pytest.mark.parametrize("causal", [False, True])
def test_projections_without_a_cache(causal: bool) -> None:
    def program(x: jax.Array, w: jax.Array) -> jax.Array:
        q, k, v = jnp.moveaxis((x @ w).reshape(*x.shape[:2], 3, 4, 2), 2, 0)
        return attention(q, k, v, is_causal=causal).reshape(x.shape)

    nodes = every_size(program, "b, s, 8", "8, 24").report.nodes
    assert nodes["Attention"] == 1 and not nodes["Transpose"]


def step(
    q: jax.Array, k: jax.Array, v: jax.Array, keys: jax.Array, values: jax.Array, at: jax.Array
) -> tuple[jax.Array, ...]:
    """Queries of grouped heads, and a cache whose axes are those of JAX."""
    keys, values = (
        lax.dynamic_update_slice_in_dim(cache, new, at, 1)
        for cache, new in ((keys, k), (values, v))
    )
    mask = jnp.arange(keys.shape[1]) <= at
    return attention(q, keys, values, mask=mask[None, None, None]), keys, values


@pytest.mark.parametrize("tokens", ["t", "9"])
def test_a_cache_with_tokens_before_heads(tokens: str) -> None:
    """A step turns its queries, and not the cache."""
    specs = ("b, 1, 6, 4", *["b, 1, 2, 4"] * 2, *[f"b, {tokens}, 2, 4"] * 2, "int32[]")
    program = every_size(step, *specs)
    assert program.report.nodes["Attention"] == 1
    turned = [n.inputs[0] for n in program.model.graph.all_nodes() if n.op_type == "Transpose"]
    assert [tuple(x.shape or ())[1:] for x in turned if x] == [(2, 3, 4), (3, 2, 4)]


def test_more_queries_than_keys() -> None:
    """They stay as they are, and the keys get a Transpose."""

    def program(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jnp.einsum("bhst,bthd->bhsd", jax.nn.softmax(jnp.einsum("bhsd,bthd->bhst", q, k)), v)

    for queries, rank in (("8", 3), ("9", 4), ("s", 4)):
        model = every_size(program, f"b, 2, {queries}, 4", *["b, 9, 2, 4"] * 2).model
        (node,) = [n for n in model.graph.all_nodes() if n.op_type == "Attention"]
        assert node.inputs[0] is not None and len(node.inputs[0].shape or ()) == rank
