"""LayerNormalization along an axis that is not the last one, and look-alikes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from target_costs import use_costs
from verified import nodes

X = np.random.default_rng(0).normal(2, 3, (2, 32, 5, 6)).astype(np.float32)
S, B = np.random.default_rng(1).normal(size=(2, 32)).astype(np.float32)


def normalized(x: jax.Array, axis: Any = 1, other: Any = None, ddof: int = 0) -> jax.Array:
    """ConvNeXt's LayerNorm, channels second."""
    mean = x.mean(axis, keepdims=True)
    variance = x.var(axis if other is None else other, keepdims=True, ddof=ddof)
    return (x - mean) / jnp.sqrt(variance + 1e-6)


def affine(x: jax.Array, s: jax.Array, b: jax.Array) -> jax.Array:
    return s[:, None, None] * normalized(x) + b[:, None, None]


EXPECTED = Counter(Transpose=2, LayerNormalization=1)


@pytest.mark.parametrize("is_bound", [False, True])
def test_channels_second(is_bound: bool) -> None:
    if is_bound:
        assert nodes(lambda x: affine(x, S, B), X) == EXPECTED
    else:
        assert nodes(affine, X, S, B) == EXPECTED


def keras(x: jax.Array, s: jax.Array, b: jax.Array) -> jax.Array:
    """Keras scales the inverse deviation, and the mean goes into the bias."""
    factor = jax.lax.rsqrt(x.var(1, keepdims=True) + 1e-3) * s[:, None, None]
    return x * factor + (b[:, None, None] - x.mean(1, keepdims=True) * factor)


def test_keras_form() -> None:
    assert nodes(lambda x: keras(x, S, B), X) == EXPECTED


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis(axis: int) -> None:
    x = np.moveaxis(X, 1, axis)
    assert nodes(lambda x: normalized(x, axis), x) == EXPECTED


@pytest.mark.parametrize("limit", ["channel_norm_extent", "channel_norm_elements"])
def test_what_is_faster_as_it_is(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for cost, is_done in ((X.size, True), (X.size - 1, False)):
        cost = cost if limit == "channel_norm_elements" else (33 - is_done)
        use_costs(monkeypatch, **{limit: cost})
        assert bool(nodes(normalized, X)["LayerNormalization"]) == is_done


def test_between_convolutions() -> None:
    """Scale and bias go into the normalization, not into an operator of their own."""
    w = np.random.default_rng(2).normal(size=(32, 32, 1, 1)).astype(np.float32)

    def conv(x: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")

    found = nodes(lambda x: conv(affine(conv(x), S, B)), X)
    assert found == EXPECTED + Counter(Conv=2)


def test_unusual_numbers() -> None:
    x = X.copy()
    x[0, 1, 2, 3], x[1, 0, 0, 0], x[:, :, 4, 5] = np.nan, np.inf, 7.0
    assert nodes(normalized, x) == EXPECTED


@pytest.mark.parametrize(
    "options",
    [{"axis": (1, 2)}, {"other": 2}, {"ddof": 1}, {"axis": -1}, {"axis": (0, 1, 2, 3)}],
    ids=str,
)
def test_look_alikes(options: dict[str, Any]) -> None:
    """Several axes, another deviation, and the last axis, which needs no Transpose."""
    found = nodes(lambda x: normalized(x, **options), X)
    assert not (found["LayerNormalization"] and found["Transpose"])


def test_doubles_stay() -> None:
    with jax.enable_x64(True):
        found = nodes(normalized, X.astype(np.float64))
    assert not found["LayerNormalization"]


def test_switched_off() -> None:
    found = nodes(normalized, X, without=("channel-layer-normalization",))
    assert not found["LayerNormalization"]
