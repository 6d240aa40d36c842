"""The programs whose models are changed: examples, and small ones with operators that few have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx
from tools import EXAMPLES, example_names

Built = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""


def of(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
    """The type of an argument."""
    return jax.ShapeDtypeStruct(shape, dtype)


F32, I32, U32, U8, BF16 = jnp.float32, jnp.int32, jnp.uint32, jnp.uint8, jnp.bfloat16


def indexing() -> Built:
    """Gathers of each mode, slices and updates at places that are inputs."""

    def function(x: jax.Array, i: jax.Array, j: jax.Array) -> tuple[jax.Array, ...]:
        clipped = jnp.take(x, i, axis=0, mode="clip")
        filled = jnp.take(x, i, axis=0, mode="fill", fill_value=-1.0)
        part = jax.lax.dynamic_slice(x, (j, j - 1), (2, 3))
        updated = jax.lax.dynamic_update_slice(x, part * 2, (j + 1, j))
        return clipped, filled, updated, x.at[i].add(1.0, mode="drop"), x.at[i].max(0.25)

    return function, (of(F32, 5, 4), of(I32, 6), of(I32))


def integers() -> Built:
    """Arithmetic of integers at its edges."""

    def function(x: jax.Array, y: jax.Array, u: jax.Array) -> tuple[jax.Array, ...]:
        return (
            jax.lax.div(x, y),
            jax.lax.rem(x, y),
            x // y,
            jnp.abs(x),
            jax.lax.shift_left(x, y),
            jax.lax.shift_right_arithmetic(x, y),
            jax.lax.shift_right_logical(u, jnp.uint32(40) - u),
            jax.lax.population_count(u),
            jax.lax.clz(u),
            jnp.sign(x),
            jnp.clip(x, -100, 100),
        )

    return function, (of(I32, 7), of(I32, 7), of(U32, 7))


def casts() -> Built:
    """Casts that saturate, and guards against NaN."""

    def function(x: jax.Array, i: jax.Array) -> tuple[jax.Array, ...]:
        return (
            x.astype(I32),
            x.astype(U8),
            i.astype(jnp.int8),
            jnp.nan_to_num(x, nan=0.5, posinf=9.0, neginf=-9.0),
            jnp.where(jnp.isfinite(x), x, 0.0).sum(),
            jnp.round(x).astype(BF16),
            jnp.sign(x) * jnp.sqrt(jnp.maximum(x, 1e-6)),
        )

    return function, (of(F32, 9), of(I32, 5))


def activations() -> Built:
    """Piecewise functions, and normalization."""

    def function(x: jax.Array) -> tuple[jax.Array, ...]:
        relu6 = jnp.clip(x, 0, 6)
        return (
            relu6,
            jax.nn.hard_swish(x),
            jax.nn.leaky_relu(x, 0.1),
            jax.nn.elu(x),
            jax.nn.softplus(x),
            jax.nn.gelu(x),
            jax.nn.log_softmax(x),
            jax.nn.standardize(x, axis=-1, epsilon=1e-3),
            jnp.logaddexp(x, 0.5),
        )

    return function, (of(F32, 3, 8),)


def sorting() -> Built:
    """Sorts, extremes and running sums."""

    def function(x: jax.Array, i: jax.Array) -> tuple[jax.Array, ...]:
        values, places = jax.lax.top_k(x, 3)
        return (
            values,
            places,
            jnp.argmax(x, axis=0),
            jnp.argmin(i),
            jnp.cumsum(x, axis=1),
            jax.lax.cumsum(i, reverse=True),
            jax.lax.cummax(x, axis=1, reverse=True),
            jnp.sort(i, descending=True),
            jnp.argsort(x, axis=1),
            jnp.searchsorted(jnp.arange(5.0), x[0]),
        )

    return function, (of(F32, 4, 6), of(I32, 7))


def control_flow() -> Built:
    """A loop that ends by its data, branches by an index and by a sum."""

    def function(x: jax.Array, n: jax.Array, k: jax.Array) -> tuple[jax.Array, ...]:
        steps, y = jax.lax.while_loop(
            lambda s: (s[0] < jnp.minimum(n, 20)) & (jnp.abs(s[1]).sum() < 100.0),
            lambda s: (s[0] + 1, s[1] * 1.5 - 0.25),
            (0, x),
        )
        z = jax.lax.switch(k, [jnp.sin, lambda v: v * v - 3, lambda v: v[::-1]], x)
        w = jax.lax.cond(x.sum() > 25, lambda: jnp.tanh(x) * 2, lambda: x - 1)
        s, t = jax.lax.scan(lambda c, v: (c * 0.5 + v, c - v), 1.0, x)
        return steps, y, z, w, s, t

    return function, (of(F32, 5), of(I32), of(I32))


def images() -> Built:
    """Convolutions, pools and padding."""
    rng = np.random.default_rng(7)
    w = jnp.asarray(rng.standard_normal((3, 2, 3, 3)), F32)
    v = jnp.asarray(rng.standard_normal((4, 1, 2, 2)), F32)

    def function(x: jax.Array) -> tuple[jax.Array, ...]:
        y = jax.lax.conv_general_dilated(x, w, (2, 1), [(1, 0), (1, 2)], rhs_dilation=(1, 2))
        g = jnp.concatenate([x, x * 0.5], axis=1)
        z = jax.lax.conv_general_dilated(g, v, (1, 1), "VALID", feature_group_count=4)
        m = jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 1, 2, 3), (1, 1, 2, 1), [(0, 0), (0, 0), (1, 0), (0, 1)]
        )
        t = jax.lax.conv_transpose(
            x, w.transpose(2, 3, 1, 0), (2, 2), "SAME", dimension_numbers=("NCHW", "HWIO", "NCHW")
        )
        return y, z, m, t, jnp.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), mode="reflect")

    return function, (of(F32, 1, 2, 6, 5),)


def lower_precision() -> Built:
    """bf16 and f16."""
    w = jnp.asarray(np.random.default_rng(5).standard_normal((8, 6)), BF16)

    def function(x: jax.Array, y: jax.Array) -> tuple[jax.Array, ...]:
        return jax.nn.silu(x @ w), (y * 3 - 1).astype(F32).mean(0), jnp.maximum(x[:, :6], y)

    return function, (of(BF16, 4, 8), of(BF16, 4, 6))


def complex_numbers() -> Built:
    """Complex arithmetic and a transform."""

    def function(x: jax.Array, z: jax.Array) -> tuple[jax.Array, ...]:
        return (
            jnp.abs(z),
            z * jnp.conj(z[::-1]) - x,
            jnp.fft.rfft(x),
            jnp.exp(z * 0.5),
            jnp.angle(z),
        )

    return function, (of(F32, 8), of(jnp.complex64, 8))


def random_numbers() -> Built:
    """Random numbers of a key."""

    def function(key: jax.Array, x: jax.Array) -> tuple[jax.Array, ...]:
        one, two = jax.random.split(key)
        keep = jax.random.bernoulli(one, 0.7, x.shape)
        return (
            jnp.where(keep, x / 0.7, 0),
            jax.random.normal(two, (4,)),
            jax.random.randint(two, (5,), 0, 9),
        )

    return function, (of(U32, 2), of(F32, 3, 4))


PROGRAMS: Mapping[str, Callable[[], Built]] = {
    f"small_{build.__name__}": build
    for build in (indexing, integers, casts, activations, sorting, control_flow, images,
                  lower_precision, complex_numbers, random_numbers)
}  # fmt: skip
"""By name."""

LARGE = frozenset({"resnet18", "mobilenet", "unet", "gpt2_prefill", "gpt2_decode"})
"""Examples that take long. They run only if they are asked for."""


def names() -> list[str]:
    """The programs of a run by default."""
    examples = [name for name in example_names() if name not in LARGE]
    return [*examples, *sorted(PROGRAMS)]


def translated(name: str) -> hlo2onnx.OnnxProgram:
    """A program as a model.

    Raises:
        KeyError: There is no such program.
    """
    source: Any = EXAMPLES / f"{name}.mlir"
    if build := PROGRAMS.get(name):
        function, arguments = build()
        source = jax.jit(function).lower(*arguments)
    elif not source.exists():
        raise KeyError(f"no program {name}")
    program: hlo2onnx.OnnxProgram = hlo2onnx.translate(source)
    return program
