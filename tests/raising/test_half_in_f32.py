"""Programs of half types, computed in f32: with all roundings, or only where values are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from mostly_wide import mostly_wide

import hlo2onnx

HALF = [np.float16, ml_dtypes.bfloat16]
X = np.random.default_rng(0).normal(size=(6, 16)).astype(np.float32)


def translated(function: Callable[..., Any], *args: Any, **options: Any) -> hlo2onnx.OnnxProgram:
    """A program that `verify` finds right."""
    program = hlo2onnx.translate(jax.jit(function), *args, **options)
    found = program.verify(samples=4)
    assert found, found
    return program


def fast(function: Callable[..., Any], *args: Any, **options: Any) -> hlo2onnx.OnnxProgram:
    """The same with half="fast"."""
    return translated(function, *args, half="fast", **options)


def operators(program: hlo2onnx.OnnxProgram) -> dict[str, int]:
    """The counts of the operators other than Cast."""
    return {name: count for name, count in program.report.nodes.items() if name != "Cast"}


def rms_norm(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(wide), -1, keepdims=True) + 1e-6)
    return (wide * scale).astype(x.dtype) * jnp.linspace(0.5, 2, 16, dtype=x.dtype)


PATTERNS: dict[str, tuple[Callable[[jax.Array], jax.Array], dict[str, int], str]] = {
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), {"Gelu": 1}, "activations"),
    "tanh gelu": (jax.nn.gelu, {"Gelu": 1}, "activations"),
    "softmax": (jax.nn.softmax, {"Softmax": 1}, "softmax"),
    "log_softmax": (jax.nn.log_softmax, {"LogSoftmax": 1}, "log-softmax"),
    "softplus": (jax.nn.softplus, {"Softplus": 1}, "activations"),
    "rms norm": (rms_norm, {"RMSNormalization": 1}, "layer-normalization-affine"),
    "layer norm": (
        lambda x: (
            (x - x.mean(-1, keepdims=True))
            * jax.lax.rsqrt(x.var(-1, keepdims=True) + np.array(1e-5, x.dtype))
        ),
        {"LayerNormalization": 1},
        "layer-normalization",
    ),
}


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", mostly_wide(PATTERNS, ["gelu", "rms norm", "softmax"]))
def test_patterns_across_roundings(name: str, dtype: Any) -> None:
    function, nodes, rule = PATTERNS[name]
    program = fast(function, X.astype(dtype))
    assert operators(program) == nodes
    assert program.report.nodes["Cast"] == 2
    assert program.report.relaxed[rule] == 1
    assert 'half="fast"' in str(program.report.notes)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", mostly_wide(PATTERNS, ["gelu", "rms norm"]))
def test_roundings_stay(name: str, dtype: Any) -> None:
    function, nodes, _ = PATTERNS[name]
    program = translated(function, X.astype(dtype))
    found = operators(program)
    if name != "rms norm":  # whose roundings are around the operator
        assert not nodes.keys() & found.keys()
    assert not program.report.relaxed and not program.report.notes[1:]


def test_numbers_of_f32_are_not_rounded() -> None:
    """In f32, 0.70703125 is not the root of 1/2, also if half="fast"."""

    def almost(x: jax.Array) -> jax.Array:
        return 0.5 * x * jax.lax.erfc(-x * 0.70703125)

    assert "Gelu" not in fast(almost, X).report.nodes
    assert "Gelu" in fast(almost, X.astype(ml_dtypes.bfloat16)).report.nodes


@pytest.mark.parametrize("root", [0.703125, 0.7109375])
def test_other_numbers_of_half_types(root: float) -> None:
    """The neighbors of the root of 1/2 in bf16."""
    x = X.astype(ml_dtypes.bfloat16)
    program = fast(lambda x: x / 2 * jax.lax.erfc(-x * jnp.bfloat16(root)), x)
    assert "Gelu" not in program.report.nodes


def test_every_operator_rounds_once() -> None:
    x = X.astype(ml_dtypes.bfloat16)
    program = translated(lambda x: jnp.tanh(x * x + x) - x, x)
    assert operators(program) == {"Mul": 1, "Add": 1, "Tanh": 1, "Sub": 1}
    assert program.report.nodes["Cast"] == 8  # the input, the output, two for each of the others
    y = x * x + x
    np.testing.assert_array_equal(program(x), np.tanh(y.astype(np.float32)).astype(x.dtype) - x)


EXACT: dict[str, Callable[[jax.Array], jax.Array]] = {
    "negative": lambda x: -x,
    "size": jnp.abs,
    "relu": jax.nn.relu,
    "largest": lambda x: jnp.maximum(x, x[::-1]),
    "half": lambda x: x * jnp.bfloat16(0.5),
    "quotient": lambda x: x / jnp.bfloat16(-8),
    "transposed": lambda x: jnp.concatenate([x.T, x.T]),
    "chosen": lambda x: jnp.where(x > 1, x, -1),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", EXACT)
def test_exact_operators_do_not_round(name: str) -> None:
    """Between two operators that round, and so two Casts each, there are no more Casts."""
    x = X.astype(ml_dtypes.bfloat16)
    function = EXACT[name]
    around = translated(lambda x: jnp.tanh(function(jnp.exp(x))), x)
    assert around.report.nodes["Cast"] == 4


ROUNDED: dict[str, Callable[[jax.Array], jax.Array]] = {
    "third": lambda x: x * jnp.bfloat16(0.3),
    "by a value": lambda x: jnp.bfloat16(0.5) / x,
    "sum": lambda x: x + jnp.bfloat16(0.5),
    "added rows": lambda x: x.at[jnp.array([1, 4])].add(x[:2]),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_inexact_operators_round(name: str) -> None:
    x = X.astype(ml_dtypes.bfloat16)
    function = ROUNDED[name]
    around = translated(lambda x: jnp.tanh(function(jnp.exp(x))), x)
    assert around.report.nodes["Cast"] == 6


@pytest.mark.wide
@pytest.mark.parametrize("dtype", HALF)
def test_roundings_follow_moves(dtype: Any) -> None:
    """A MatMul and its Transpose stay together, as in f32, and one rounding follows."""

    def function(x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.nn.relu(jnp.einsum("btkgh,bskh->bkgts", x, y))

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1, 4, 2, 3, 8)), rng.normal(size=(1, 5, 2, 8))
    single = translated(function, x.astype(np.float32), y.astype(np.float32))
    program = translated(function, x.astype(dtype), y.astype(dtype))
    assert operators(program) == operators(single)


@pytest.mark.wide
def test_moves_with_other_readers_follow_the_rounding() -> None:
    def function(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = jnp.exp(x)
        return jnp.tanh(y.T), y * jnp.bfloat16(1.1)

    x = X.astype(ml_dtypes.bfloat16)
    for got, want in zip(translated(function, x)(x), function(jnp.asarray(x)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_f16_scaled_by_a_power_of_two_rounds() -> None:
    """f16 has denormals where f32 has digits, and infinity earlier."""
    x = np.array([6e-8, 1.3e-4, 7e4, 40000, 3], np.float16)
    program = hlo2onnx.translate(jax.jit(lambda x: x * np.float16(0.5) * np.float16(2)), x)
    np.testing.assert_array_equal(program(x), x * np.float16(0.5) * np.float16(2))


# -- where roundings stay in half="fast" --------------------------------------------------------


JUMPS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "integers": lambda x: (x * 10).astype(jnp.int32),
    "floor": lambda x: jnp.floor(x * 10),
    "equal": lambda x: x * jnp.bfloat16(1.1) == x[0] * jnp.bfloat16(1.1) + jnp.bfloat16(1e-3),
    "less than a number": lambda x: jnp.sqrt(jnp.abs(x)) < 0.5,
    "argmax": lambda x: jnp.argmax(jnp.tanh(x), 0),
    "top_k": lambda x: jax.lax.top_k(x * jnp.bfloat16(0.3), 3)[1],
}


@pytest.mark.parametrize("name", JUMPS)
def test_jumps_see_rounded_numbers(name: str) -> None:
    """Equal numbers in bf16 are equal, so that the results are those of JAX op by op.

    XLA's top_k of a program may see unrounded numbers.
    """
    x = (np.arange(256).reshape(32, 8) / 64).astype(ml_dtypes.bfloat16)
    program = hlo2onnx.translate(jax.jit(JUMPS[name]), x, half="fast")
    np.testing.assert_array_equal(program(x), JUMPS[name](jnp.asarray(x)))


def test_comparisons_with_zero_do_not_round() -> None:
    x = X.astype(ml_dtypes.bfloat16)
    program = fast(lambda x: jax.nn.leaky_relu(jnp.tanh(x)), x)
    assert operators(program) == {"Tanh": 1, "LeakyRelu": 1}


def test_asked_roundings_stay() -> None:
    def function(x: jax.Array) -> jax.Array:
        wide = x.astype(jnp.float32) * 1.1
        return wide - jax.lax.reduce_precision(wide, 8, 7)

    x = X.astype(ml_dtypes.bfloat16)
    for half in ("xla", "fast"):
        program = hlo2onnx.translate(jax.jit(function), x, half=half)
        np.testing.assert_array_equal(program(x), jax.jit(function)(x))


def test_bits_are_those_of_the_half_type() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jax.lax.bitcast_convert_type(x * jnp.bfloat16(1.1), jnp.int16)

    x = X.astype(ml_dtypes.bfloat16)
    for half in ("xla", "fast"):
        program = hlo2onnx.translate(jax.jit(function), x, half=half)
        np.testing.assert_array_equal(program(x), jax.jit(function)(x))


# -- stored values ------------------------------------------------------------------------------


def test_moves_of_stored_values() -> None:
    """A program that only moves numbers has no Cast; a table is read before it is cast."""
    x = X.astype(ml_dtypes.bfloat16)
    assert translated(lambda x: jnp.concatenate([x.T[:3], x.T]), x).report.nodes["Cast"] == 0
    indices = jnp.array([3, 1])
    program = fast(lambda table, i: jnp.tanh(table[i]), x, indices)
    *_, gather, cast, _, _ = [node.op_type for node in program.model.graph]
    assert (gather, cast) == ("Gather", "Cast")


def test_caches_stay_in_their_type() -> None:
    def step(cache: jax.Array, x: jax.Array, at: jax.Array) -> tuple[jax.Array, jax.Array]:
        cache = jax.lax.dynamic_update_slice(cache, jnp.tanh(x), (at, 0))
        return cache, jax.nn.softmax(x @ cache.T)

    x = X.astype(ml_dtypes.bfloat16)
    program = fast(step, x, x[:1], jnp.int32(2))
    assert "Softmax" in program.report.nodes
    made = program.model.graph.outputs[0].producer()
    assert made is not None and made.op_type != "Cast"


@pytest.mark.wide
@pytest.mark.parametrize("half", ["xla", "fast"])
def test_control_flow(half: Any) -> None:
    def function(x: jax.Array, n: jax.Array) -> Any:
        y = jax.lax.fori_loop(0, n, lambda i, y: jnp.tanh(y * x), x)
        last, stack = jax.lax.scan(lambda c, row: (jnp.tanh(c + row), c * row), x[0], x)
        z = jax.lax.cond(n > 3, lambda: x * jnp.bfloat16(1.1), lambda: jnp.zeros_like(x))
        return y, last, stack, z

    translated(function, X.astype(ml_dtypes.bfloat16), jnp.int32(4), half=half)


@pytest.mark.parametrize("half", ["xla", "fast"])
def test_functions(half: Any) -> None:
    inner = jax.jit(lambda x: jnp.tanh(x) * jnp.bfloat16(1.1))
    x = X.astype(ml_dtypes.bfloat16)
    program = translated(lambda x: inner(x) + inner(-x), x, half=half, functions="keep")
    assert len(program.model.functions) == 1


@pytest.mark.wide
@pytest.mark.parametrize("half", ["xla", "fast"])
def test_free_extents(half: Any) -> None:
    translated(lambda x: jax.nn.softmax(x @ x.T), X.astype(np.float16), half=half, dynamic="b, 16")


# -- weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", ["xla", "fast"])
def test_weights_stay_in_their_type(half: Any) -> None:
    """A large weight is stored in bf16 and under its name, once; a small one may be f32."""
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(64, 80)), "b": rng.normal(size=80)}
    params = {name: array.astype(ml_dtypes.bfloat16) for name, array in params.items()}
    x = rng.normal(size=(4, 64)).astype(ml_dtypes.bfloat16)

    def function(params: Any, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ params["w"] + params["b"])

    program = translated(function, params, x, bind=[0], half=half)
    stored = {item.name: item.data_type for item in program.model_proto.graph.initializer}
    assert stored["args/0/w" if "args/0/w" in stored else "params/w"] == 16
    assert program.report.casts["weight bf16"] == 1
    other = {name: array * 2 for name, array in params.items()}
    new = hlo2onnx.translate(jax.jit(function), other, x, bind=[0], half=half)
    assert program.apply_weights({"params": other})
    np.testing.assert_array_equal(program(x), new(x))


@pytest.mark.wide
def test_a_table_is_stored_once() -> None:
    table = np.random.default_rng(0).normal(size=(128, 64)).astype(ml_dtypes.bfloat16)

    def function(table: jax.Array, i: jax.Array) -> jax.Array:
        return jnp.tanh(table[i]).T @ table

    program = fast(function, table, jnp.arange(128) // 3, bind=[0])
    large = [item for item in program.model_proto.graph.initializer if np.prod(item.dims) > 4096]
    assert len(large) == 1


# -- targets ------------------------------------------------------------------------------------


def test_targets_with_kernels_of_half_types() -> None:
    """The standard has kernels for all of it, and nothing is computed in f32."""
    x = X.astype(ml_dtypes.bfloat16)
    for half in ("xla", "fast"):
        program = hlo2onnx.translate(jax.jit(jnp.tanh), x, half=half, target="onnx")
        assert dict(program.report.nodes) == {"Tanh": 1}


def test_fast_kernels_of_half_types() -> None:
    """Without the flag of the target, f16 is computed by its own kernels."""
    x = X.astype(np.float16)
    program = hlo2onnx.translate(jax.jit(lambda x: x * x), x, half="fast", target="openvino")
    assert dict(program.report.nodes) == {"Mul": 1}
