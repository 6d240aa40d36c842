"""LayerNormalization and RMSNormalization in the ways programs write them, and look-alikes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from target_costs import use_costs
from verified import nodes, operators

RNG = np.random.default_rng(0)
X = RNG.normal(2, 3, (4, 6, 16)).astype(np.float32)
S, B = RNG.normal(size=(2, 16)).astype(np.float32)


def fast(x: jax.Array, axis: int | tuple[int, ...] = -1) -> jax.Array:
    """flax's LayerNorm: the difference of two means."""
    mean = x.mean(axis, keepdims=True)
    variance = jnp.maximum(0, (x * x).mean(axis, keepdims=True) - mean * mean)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-6)


def two_pass(x: jax.Array, axis: int | tuple[int, ...] = -1) -> jax.Array:
    """Haiku's and Keras' LayerNorm."""
    return (x - x.mean(axis, keepdims=True)) / jnp.sqrt(x.var(axis, keepdims=True) + 1e-3)


def keras(x: jax.Array, s: jax.Array | None, b: jax.Array | None) -> jax.Array:
    """Keras' way to write a normalization: the mean goes into the bias."""
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    factor = jax.lax.rsqrt(variance + 1e-3)
    factor = factor if s is None else factor * s
    shift = -mean * factor
    return x * factor + (shift if b is None else shift + b)


def clipped(x: jax.Array) -> jax.Array:
    """equinox' LayerNorm: a variance that is not negative anyway."""
    mean, variance = x.mean(-1, keepdims=True), jnp.maximum(0, x.var(-1, keepdims=True))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


def conv(x: jax.Array, w: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def rms(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)


LAYER: dict[str, Callable[..., jax.Array]] = {
    "fast": lambda x, s, b: fast(x) * s + b,
    "two_pass": lambda x, s, b: two_pass(x) * s + b,
    "scale_first": lambda x, s, b: (x - x.mean(-1, keepdims=True))
    * (s * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)) + b,
    "one_plus_scale": lambda x, s, b: b + (1 + s) * fast(x),
    "keras": lambda x, s, b: keras(x, s, b),
    "keras_unscaled": lambda x, s, b: keras(x, None, None) * s + b,
    "equinox": lambda x, s, b: clipped(x) * s + b,
    "jax_nn_standardize": lambda x, s, b: jax.nn.standardize(x, axis=-1, epsilon=1e-5) * s + b,
}  # fmt: skip


@pytest.mark.parametrize("name", LAYER)
def test_layer_normalization(name: str) -> None:
    expected = ["LayerNormalization"] + ["Add"] * (name == "one_plus_scale")
    assert operators(LAYER[name], X, S, B) == sorted(expected)


def test_without_parameters_and_over_two_axes() -> None:
    assert operators(fast, X) == ["LayerNormalization"]
    assert operators(lambda x: two_pass(x, (1, 2)), X) == ["LayerNormalization"]


@pytest.mark.parametrize("normalize", [fast, rms])
def test_rows_with_a_new_axis(normalize: Callable[[jax.Array], jax.Array]) -> None:
    """The Reshape sinks below the norm, though its statistics do not have the axis."""
    counted = nodes(lambda x, s: normalize(x[:, None]) * s, X[0], S)
    names = {fast: "LayerNormalization", rms: "RMSNormalization"}
    assert counted[names[normalize]] == 1 and counted.total() <= 3


def test_large_means_lose_no_digits() -> None:
    assert operators(two_pass, X + 1000) == ["LayerNormalization"]


def test_very_long_rows_keep_their_sums() -> None:
    rows = RNG.normal(size=(1, 1 << 18)).astype(np.float32)
    assert "LayerNormalization" not in operators(fast, rows)
    assert "RMSNormalization" not in operators(rms, rows)


def test_rms_normalization() -> None:
    assert operators(lambda x, s: rms(x) * s, X, S) == ["RMSNormalization"]
    assert operators(lambda x, s: rms(x) * (1 + s), X, S) == ["Add", "RMSNormalization"]
    assert operators(rms, X) == ["RMSNormalization"]

    def tunix(x: jax.Array, s: jax.Array) -> jax.Array:
        return s * x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)

    assert operators(tunix, X, S) == ["RMSNormalization"]
    assert operators(lambda x: tunix(x, 1 + S), X) == ["RMSNormalization"]


def test_normalization_of_scaled_values() -> None:
    """Haiku's RMSNorm scales first, by what is none of what is normalized."""

    def scaled(x: jax.Array, s: jax.Array) -> jax.Array:
        return s * x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)

    assert operators(scaled, X, S) == ["RMSNormalization"]
    assert operators(lambda x: scaled(x, S), X) == ["RMSNormalization"]
    assert "RMSNormalization" not in operators(scaled, X, X[0] + 1)


@pytest.mark.parametrize("normalize", [fast, two_pass, clipped, rms])
def test_of_channels_between_convolutions(
    normalize: Callable[[jax.Array], jax.Array],
) -> None:
    """Transposes stay where they bring the channels to the end, as the operators want them."""
    images, w = RNG.normal(size=(1, 8, 8, 16)), RNG.normal(size=(3, 3, 16, 16))
    images, w = images.astype(np.float32), (w / 12).astype(np.float32)
    operator = "RMSNormalization" if normalize is rms else "LayerNormalization"
    found = operators(lambda x: conv(normalize(conv(x, w)) * S, w), images)
    assert found == sorted([operator, "Conv", "Conv", *["Transpose"] * 4])


def test_means_of_channels_that_normalize_nothing() -> None:
    """As in an attention over places: the channels stay second from layer to layer, but for the
    two that are joined."""
    images, w = RNG.normal(size=(1, 8, 8, 16)), RNG.normal(size=(3, 3, 16, 16))
    images, w = images.astype(np.float32), (w / 12).astype(np.float32)

    def model(x: jax.Array) -> jax.Array:
        x = conv(x, w)
        places = jnp.concatenate([x.mean(-1, keepdims=True), x.max(-1, keepdims=True)], -1)
        return conv(x * jax.nn.sigmoid(conv(places, w[..., :2, :1])), w)

    assert operators(model, images).count("Transpose") == 3


IMAGES = np.random.default_rng(0).normal(2, 3, (2, 32, 5, 6)).astype(np.float32)
SCALE, BIAS = np.random.default_rng(1).normal(size=(2, 32)).astype(np.float32)


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
        assert nodes(lambda x: affine(x, SCALE, BIAS), IMAGES) == EXPECTED
    else:
        assert nodes(affine, IMAGES, SCALE, BIAS) == EXPECTED


def keras_of_channels(x: jax.Array, s: jax.Array, b: jax.Array) -> jax.Array:
    """Keras scales the inverse deviation, and the mean goes into the bias."""
    factor = jax.lax.rsqrt(x.var(1, keepdims=True) + 1e-3) * s[:, None, None]
    return x * factor + (b[:, None, None] - x.mean(1, keepdims=True) * factor)


def test_keras_form() -> None:
    assert nodes(lambda x: keras_of_channels(x, SCALE, BIAS), IMAGES) == EXPECTED


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis(axis: int) -> None:
    x = np.moveaxis(IMAGES, 1, axis)
    assert nodes(lambda x: normalized(x, axis), x) == EXPECTED


@pytest.mark.parametrize("limit", ["channel_norm_extent", "channel_norm_elements"])
def test_what_is_faster_as_it_is(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for cost, is_done in ((IMAGES.size, True), (IMAGES.size - 1, False)):
        cost = cost if limit == "channel_norm_elements" else (33 - is_done)
        use_costs(monkeypatch, **{limit: cost})
        assert bool(nodes(normalized, IMAGES)["LayerNormalization"]) == is_done


def test_between_convolutions() -> None:
    """Scale and bias go into the normalization, not into an operator of their own."""
    w = np.random.default_rng(2).normal(size=(32, 32, 1, 1)).astype(np.float32)

    def conv(x: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")

    found = nodes(lambda x: conv(affine(conv(x), SCALE, BIAS)), IMAGES)
    assert found == EXPECTED + Counter(Conv=2)


def test_unusual_numbers() -> None:
    x = IMAGES.copy()
    x[0, 1, 2, 3], x[1, 0, 0, 0], x[:, :, 4, 5] = np.nan, np.inf, 7.0
    assert nodes(normalized, x) == EXPECTED


@pytest.mark.parametrize(
    "options",
    [{"axis": (1, 2)}, {"other": 2}, {"ddof": 1}, {"axis": -1}, {"axis": (0, 1, 2, 3)}],
    ids=str,
)
def test_look_alikes(options: dict[str, Any]) -> None:
    """Several axes, another deviation, and the last axis, which needs no Transpose."""
    found = nodes(lambda x: normalized(x, **options), IMAGES)
    assert not (found["LayerNormalization"] and found["Transpose"])
