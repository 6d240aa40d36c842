"""Activation functions as JAX and others write them, and what only looks like one."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import erfc
from verified import operators

import hlo2onnx

HALF_ROOT = np.float32(np.sqrt(0.5))
X = np.linspace(-9, 9, 400, dtype=np.float32).reshape(20, 20)


GELU: dict[str, Callable[[jax.Array], jax.Array]] = {
    "jax_erfc": lambda x: jax.nn.gelu(x, approximate=False),
    "jax_tanh": jax.nn.gelu,
    "erf": lambda x: 0.5 * x * (1 + jax.lax.erf(x / np.sqrt(2).astype(np.float32))),
    "erf_last": lambda x: x * ((jax.lax.erf(x * np.float32(0.70710678)) + 1) * 0.5),
    "erfc of a negative factor": lambda x: 0.5 * x * erfc(x * -HALF_ROOT),
    "erfc of a negative": lambda x: 0.5 * x * erfc(HALF_ROOT * -x),
    "erfc of a negative product": lambda x: 0.5 * x * erfc(-(HALF_ROOT * x)),
    "erfc of a negative quotient": lambda x: 0.5 * x * erfc(-x / np.sqrt(2).astype(np.float32)),
    "tanh_last": lambda x: x * (0.5 * (jnp.tanh(
        np.sqrt(2 / np.pi).astype(np.float32) * (x + 0.044715 * x * x * x)) + 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", GELU)
def test_gelu(name: str) -> None:
    assert operators(GELU[name], X) == ["Gelu"]


OTHERS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "erfc of x": lambda x: 0.5 * x * erfc(HALF_ROOT * x),
    "erfc of another width": lambda x: 0.5 * x * erfc(-0.7072 * x),
    "of something else": lambda x: 0.5 * x.T * (1 + jax.lax.erf(x * np.float32(0.70710678))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_gelu(name: str) -> None:
    assert "Gelu" not in operators(OTHERS[name], X)


GATES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "silu": jax.nn.silu,
    "glu": jax.nn.glu,
    "gate": lambda x: jax.nn.sigmoid(x) * x.T + (1 - jax.nn.sigmoid(x)) * x,
    "product": lambda x: jax.nn.sigmoid(x) @ x,
}


@pytest.mark.parametrize("name", GATES)
def test_gates_are_sigmoids(name: str) -> None:
    found = operators(GATES[name], X)
    assert "Sigmoid" in found and "Exp" not in found


def clipped(x: jax.Array) -> jax.Array:
    return jnp.minimum(jnp.maximum(x, 0), 6)


def test_relu_and_clip_before_what_takes_zeros_as_equal() -> None:
    assert operators(lambda x: jax.nn.relu(x) @ x, X) == ["MatMul", "Relu"]
    assert operators(lambda x: clipped(x) @ x, X) == ["Clip", "MatMul"]
    assert operators(lambda x: jnp.minimum(jnp.maximum(x, -1), 1), X) == ["Clip"]


def test_relu_before_layers_that_sum() -> None:
    """A transposed convolution, and the statistics of channels."""
    images, w = X.reshape(1, 1, *X.shape), np.ones((1, 1, 2, 2), np.float32)

    def upsampled(x: jax.Array) -> jax.Array:
        return jax.lax.conv_transpose(
            clipped(x), w, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")
        )

    def normalized(x: jax.Array) -> jax.Array:
        y = jax.nn.relu(x)
        mean, variance = (f(y, axis=(2, 3), keepdims=True) for f in (jnp.mean, jnp.var))
        return (y - mean) * jax.lax.rsqrt(variance + 1e-5)

    assert operators(upsampled, images) == ["Clip", "ConvTranspose"]
    assert operators(normalized, X.reshape(1, 4, 10, 10)) == ["InstanceNormalization", "Relu"]


@pytest.mark.parametrize("read", [lambda x: x, lambda x: 1 / x, lambda x: jnp.arctan2(x, -1.0)])
def test_relu_keeps_the_sign_of_zero_where_it_shows(read: Callable[..., jax.Array]) -> None:
    x = np.array([-0.0, 0.0, -1.0, 2.0], np.float32)
    program = hlo2onnx.translate(jax.jit(lambda x: read(jax.nn.relu(x))).lower(x))
    assert "Relu" not in program.report.nodes
    np.testing.assert_array_equal(
        np.signbit(program(x)), np.signbit(jax.jit(lambda x: read(jax.nn.relu(x)))(x))
    )


FUNCTIONS: dict[str, tuple[Callable[[jax.Array], jax.Array], list[str]]] = {
    "softplus": (jax.nn.softplus, ["Softplus"]),
    "log_sigmoid": (jax.nn.log_sigmoid, ["Neg", "Neg", "Softplus"]),
    "log1p_of_exp": (lambda x: jnp.log1p(jnp.exp(-jnp.abs(x))), ["Abs", "Neg", "Softplus"]),
    "logaddexp": (
        lambda x: jnp.logaddexp(x, x[::-1] * 2),
        ["Abs", "Add", "Add", "IsNaN", "Max", "Mul", "Neg", "Slice", "Softplus", "Sub", "Where"],
    ),
    "mish": (jax.nn.mish, ["Mish"]),
    "elu": (jax.nn.elu, ["Elu"]),
    "elu_0.5": (lambda x: jax.nn.elu(x, 0.5), ["Elu"]),
    "selu": (jax.nn.selu, ["Selu"]),
    "twice elu": (lambda x: 2 * jax.nn.elu(x), ["Selu"]),
    "infinite elu": (lambda x: jnp.inf * jax.nn.elu(x), ["Elu", "Mul"]),
    "minus elu": (lambda x: -2 * jax.nn.elu(x), ["Elu", "Mul"]),
    "hard_tanh": (jax.nn.hard_tanh, ["Clip"]),
    "celu": (jax.nn.celu, ["Celu"]),
    "leaky_relu": (lambda x: jax.nn.leaky_relu(x, 0.2), ["LeakyRelu"]),
    "hard_sigmoid": (lambda x: jax.nn.hard_sigmoid(x) * 2, ["HardSigmoid", "Mul"]),
    "hard_sigmoid by a product": (
        lambda x: jnp.clip(x + 3, 0, 6) * np.float32(1 / 6),
        ["HardSigmoid"],
    ),
    "hard_swish": (lambda x: jax.nn.hard_swish(x) @ x, ["HardSwish", "MatMul"]),
    "soft_sign": (jax.nn.soft_sign, ["Softsign"]),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_with_an_operator(name: str) -> None:
    function, expected = FUNCTIONS[name]
    assert operators(function, X) == expected


EDGES = "softplus log1p_of_exp logaddexp elu celu leaky_relu soft_sign mish selu hard_tanh"


@pytest.mark.parametrize("name", EDGES.split())
def test_functions_at_the_edges(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 100, -100, 1e-30, 3e38], np.float32)
    operators(FUNCTIONS[name][0], x)


@pytest.mark.parametrize("approximate", [True, False])
def test_an_opset_without_the_operator(approximate: bool) -> None:
    function = jax.jit(lambda x: jax.nn.gelu(x, approximate=approximate))
    program = hlo2onnx.translate(function.lower(X), opset=18)
    assert "Gelu" not in program.report.nodes
    assert program.verify(X).ok


LOOK_ALIKES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "above another bound": lambda x: jnp.where(x > 1, 1.5, jnp.where(x < -1, -1.0, x)),
    "another branch": lambda x: jnp.where(x > 0, x * 2, jnp.expm1(jnp.where(x > 0, 0.0, x))),
    "another bound": lambda x: jnp.where(x > 1, x, jnp.expm1(jnp.where(x > 1, 0.0, x))),
    "strictly": lambda x: jnp.where(x > 0, x, 0.2 * x),
    "another slope": lambda x: jnp.clip(x + 3, 0, 6) / 5,
    "another factor": lambda x: jnp.clip(x + 3, 0, 6) * np.float32(1 / 5),
    "of something else": lambda x: x.T / (1 + jnp.abs(x)),
    "an exponential that may be infinite": lambda x: jnp.log1p(jnp.exp(jnp.abs(x))),
    "of -x": lambda x: jnp.log1p(jnp.exp(-x)),
    "of twice the magnitude": lambda x: jnp.log1p(jnp.exp(-2 * jnp.abs(x))),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alikes(name: str) -> None:
    own = {"Elu", "LeakyRelu", "HardSigmoid", "HardSwish", "Softplus", "Softsign"}
    assert not own & {*operators(LOOK_ALIKES[name], X)}
