"""Products with weights of 4 bits, in the forms that JAX programs and quantizers write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import hlo2onnx

K, N, BLOCK = 512, 256, 32
GROUPS = K // BLOCK
RNG = np.random.default_rng(3)
Q = RNG.integers(-8, 8, (K, N)).astype(ml_dtypes.int4)
U = RNG.integers(0, 16, (K, N)).astype(ml_dtypes.uint4)
Z = RNG.integers(0, 16, (GROUPS, N)).astype(ml_dtypes.uint4)
S = RNG.uniform(0.001, 0.01, (GROUPS, N)).astype(np.float32)
X = RNG.standard_normal((3, K)).astype(np.float32)

Program = Callable[[jax.Array], jax.Array]


def wide(array: Any) -> jax.Array:
    return jnp.asarray(array).astype(jnp.float32)


def grouped(array: Any) -> jax.Array:
    return wide(np.asarray(array).reshape(GROUPS, BLOCK, N))


def weights() -> jax.Array:
    return (grouped(Q) * S[:, None]).reshape(K, N)


def partial_sums(x: jax.Array) -> jax.Array:
    parts = x.reshape(*x.shape[:-1], GROUPS, BLOCK)
    return jnp.einsum("...gk,gkn->...gn", parts, grouped(Q))


def repeated(array: Any) -> jax.Array:
    return jnp.repeat(jnp.asarray(array), BLOCK, axis=0)


def transposed(x: jax.Array) -> jax.Array:
    rows = wide(np.asarray(Q).T.reshape(N, GROUPS, BLOCK)) * S.T[:, :, None]
    return x @ rows.reshape(N, K).T


FORMS: dict[str, Program] = {
    "blocks": lambda x: x @ weights(),
    "zeros": lambda x: x @ ((grouped(U) - wide(Z)[:, None]) * S[:, None]).reshape(K, N),
    "unsigned": lambda x: x @ (grouped(U) * S[:, None]).reshape(K, N),
    "repeated": lambda x: x @ (wide(Q) * repeated(S)),
    "repeated zeros": lambda x: x @ ((wide(U) - wide(repeated(Z))) * repeated(S)),
    "columns": lambda x: x @ (wide(Q) * S[0]),
    "one scale": lambda x: x @ (wide(Q) * 0.25),
    "scaled after": lambda x: (x @ wide(Q)) * S[0],
    "zero and scaled after": lambda x: (x @ (wide(U) - 7)) * S[:1],
    "rows": lambda x: jnp.einsum("bk,nk->bn", x, wide(np.asarray(Q).T)) * S[0],
    "partial sums": lambda x: (partial_sums(x) * S).sum(-2),
    "partial sums by einsum": lambda x: jnp.einsum("bgn,gn->bn", partial_sums(x), S),
    "transposed": transposed,
    "a bias": lambda x: x @ weights() + S[0],
}


def check(form: Program, x: np.ndarray, **options: Any) -> hlo2onnx.OnnxProgram:
    program = hlo2onnx.translate(form, x, **options)
    expected = np.asarray(jax.jit(form)(x))
    error = np.abs(np.asarray(program(x)) - expected).max() / np.abs(expected).max()
    assert error <= 1e-5
    return program


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, rows: int) -> None:
    program = check(FORMS[form], X[:rows])
    assert program.report.nodes["MatMulNBits"] == 1
    assert not {"MatMul", "Mul", "Cast", "Transpose"} & {*program.report.nodes}
    others = set(program.model.opset_imports) - {""}
    assert others == {"com.microsoft"}


@pytest.mark.parametrize("form", ["blocks", "scaled after", "partial sums"])
def test_free_extents_and_other_ranks(form: str) -> None:
    batch = np.stack([X, 2 * X])
    nodes = check(FORMS[form], batch, dynamic=f"b, t, {K}").report.nodes
    assert nodes["MatMulNBits"] == 1 and "MatMul" not in nodes
    if form == "blocks":
        assert check(FORMS[form], X[0]).report.nodes == {"MatMulNBits": 1}


@pytest.mark.parametrize(("size", "block"), [(16, 16), (48, 16), (64, 64), (256, 256), (512, 256)])
def test_sizes_of_blocks(size: int, block: int) -> None:
    """A scale may be that of several blocks of the operator."""
    q = RNG.integers(-8, 8, (3, size, N)).astype(ml_dtypes.int4)
    scale = RNG.uniform(0.001, 0.01, (3, 1, N)).astype(np.float32)
    x = RNG.standard_normal((1, 3 * size)).astype(np.float32)
    program = check(lambda x: x @ (wide(q) * scale).reshape(-1, N), x)
    (node,) = program.model.graph
    assert node.attributes["block_size"].as_int() == block
    assert node.attributes["accuracy_level"].as_int() == 1


OTHERS: dict[str, tuple[Program, str]] = {
    "8 bits": (lambda x: x @ (wide(Q.astype(np.int8)) * S[0]), "the target has no faster operator"),
    "rows": (lambda x: x @ (wide(Q) * X[0][:, None]), "its scales are of rows"),
    "columns": (
        lambda x: (
            x
            @ (wide(Q).reshape(K, -1, 8) * np.tile(S.reshape(-1, N // 8, 1), (4, 1, 1))).reshape(
                K, N
            )
        ),
        "its blocks are not of rows",
    ),
    "blocks of 8": (
        lambda x: x @ (wide(Q).reshape(-1, 8, N) * np.tile(S, (4, 1))[:, None]).reshape(K, N),
        "its blocks have other sizes",
    ),
    "a batch": (
        lambda x: x @ (jnp.stack([wide(Q), wide(Q)]) * S[0]),
        "no stored weights",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_stays(name: str) -> None:
    form, why = OTHERS[name]
    program = check(form, X)
    assert "MatMulNBits" not in program.report.nodes
    assert why in str(program.explain("matmul-n-bits"))


STAYS: dict[str, tuple[Program, str]] = {
    "8 bits": (
        lambda x: (x @ wide(Q.astype(np.int8))) * S[0],
        "the target does not multiply by stored weights",
    ),
    "scales of rows": (lambda x: (x @ wide(Q)) * X[:, :1], "the scales are not those of columns"),
    "computed scales": (lambda x: (x @ wide(Q)) * x[0, :N], "no product of matrices is scaled"),
    "a sum of others": (lambda x: (partial_sums(x) * S).sum(0), "the sum is not that of blocks"),
    "scales of products": (
        lambda x: (partial_sums(x) * S[:, :1]).sum(-2),
        "the scales are not those of blocks",
    ),
    "read twice": (
        lambda x: (lambda y: (y * S[0], y + 1))(x @ wide(Q)),  # type: ignore[return-value]
        "the product has other readers",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_products_that_stay(name: str) -> None:
    form, why = STAYS[name]
    program = hlo2onnx.translate(form, X)
    assert "MatMulNBits" not in program.report.nodes
    assert why in str(program.explain("scale-into-weights"))


@pytest.mark.parametrize(("target", "count"), [("onnx", 1), ("ort-cpu@1.23", 0)])
def test_targets_without_the_operator(target: str, count: int) -> None:
    """ONNX Runtime 1.23 makes MatMulNBits of dequantized weights, which loses digits."""
    for form in FORMS.values():
        nodes = hlo2onnx.translate(form, X, target=target).report.nodes
        assert nodes["DequantizeLinear"] == count
        assert nodes["MatMul"] + nodes["Gemm"] == 1 or not count


def test_new_weights_and_their_names() -> None:
    def apply(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return x @ (p["q"].astype(jnp.float32) * p["s"][:, None]).reshape(K, N)

    p = {"q": np.asarray(Q).reshape(GROUPS, BLOCK, N), "s": S}
    program = hlo2onnx.translate(apply, p, X, bind="p")
    assert {*program.model.graph.initializers} == {"p/q", "p/s"}
    other = {"q": p["q"][::-1], "s": 2 * S}
    program.apply_weights({"p": other})
    np.testing.assert_allclose(program(X), apply(other, X), atol=1e-5)
