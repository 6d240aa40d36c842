"""LayerNormalization and RMSNormalization in the ways programs write them, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite
from verified import operators

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.batch_normalization import CenterBeforeScale
from hlo2onnx.raising.rules.nn.layer_normalization import LayerNormalization, RMSNormalization

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


OTHERS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "not the last axes": lambda x: fast(x, (0, 1)),
    "a mean of other axes": lambda x: (
        (x - x.mean((1, 2), keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)
    ),
    "the deviation of something else": lambda x: (
        (x - x.mean(-1, keepdims=True)) / jnp.sqrt((x + x[:1]).var(-1, keepdims=True) + 1e-6)
    ),
    "no mean subtracted": lambda x: x * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6),
    "the unbiased variance": lambda x: (
        (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True, ddof=1) + 1e-6)
    ),
    "the mean of something else in the bias": lambda x: (
        (f := jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)) * x
        - (x + x[:1]).mean(-1, keepdims=True) * f
    ),
    "mean and values scaled otherwise": lambda x: (
        (f := jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)) * x
        - x.mean(-1, keepdims=True) * (f + 1)
    ),
    "no epsilon": lambda x: x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True)),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", OTHERS)
def test_look_alikes(name: str) -> None:
    assert not {"LayerNormalization", "RMSNormalization"} & {*operators(OTHERS[name], X)}


def test_double_precision_stays_spelled_out() -> None:
    with jax.enable_x64(True):
        assert "LayerNormalization" not in operators(fast, X.astype(np.float64))


def test_parameters_that_others_do_not_share() -> None:
    """What is normalized is read twice: it stays as it is, the products follow."""
    found = operators(lambda x, s, b: (fast(x) * s, fast(x) + b), X, S, B)
    assert found == ["Add", "LayerNormalization", "Mul"]


def test_centre_first() -> None:
    """Legal whatever is computed from the mean, and only where it is the mean of x."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        mean, factor = b.ReduceMean(x, b.i64([2]), keepdims=1), b.ReduceMax(x, keepdims=1)
        return b.Sub(b.Mul(factor, x), b.Mul(mean, factor))

    Rewrite(build, {"x": X}, CenterBeforeScale(), tolerance=1e-5).gives(
        "ReduceMax", "ReduceMean", "Sub", "Mul"
    )

    def other(b: GraphBuilder, x: oir.Value) -> oir.Value:
        mean, factor = b.ReduceMean(b.Abs(x), b.i64([2]), keepdims=1), b.ReduceMax(x, keepdims=1)
        return b.Sub(b.Mul(factor, x), b.Mul(mean, factor))

    Rewrite(other, {"x": X}, CenterBeforeScale()).nothing()


def test_the_rules_alone() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        mean = b.ReduceMean(b.Mul(x, x), b.i64([2]), keepdims=1)
        root = b.Sqrt(b.Add(mean, b.scalar_like(1e-5, x)))
        return b.Neg(b.Div(x, root))

    Rewrite(build, {"x": X}, RMSNormalization(), tolerance=1e-6).gives("RMSNormalization", "Neg")
    Rewrite(build, {"x": X}, LayerNormalization()).nothing()
