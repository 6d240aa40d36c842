"""Linear algebra, transforms and random numbers of symbolic batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest
from every_size import every_size
from jax import lax
from mostly_wide import mostly_wide

import hlo2onnx


def symmetric(x: jax.Array) -> jax.Array:
    return (x + x.swapaxes(-1, -2)) / 2


def scaled(u: jax.Array, s: jax.Array, v: jax.Array) -> jax.Array:
    """u diag(s) v, which no choice of vectors has a part in."""
    return (u * s[..., None, :]) @ v


def definite(x: jax.Array) -> jax.Array:
    return x @ x.swapaxes(-1, -2) + 4 * jnp.eye(x.shape[-1])


BATCHED: dict[str, Callable[[jax.Array], Any]] = {
    "cholesky": lambda x: jnp.linalg.cholesky(definite(x)),
    "qr": lambda x: abs(jnp.linalg.qr(x)[1]),
    "qr, complete": lambda x: jnp.matmul(*jnp.linalg.qr(x[..., :2], mode="complete")),
    "qr with pivots": lambda x: lax.linalg.qr(x, pivoting=True)[2],
    "eigvalsh": lambda x: jnp.linalg.eigvalsh(definite(x)),
    "eigh": lambda x: (lambda w, v: scaled(v, w, v.swapaxes(-1, -2)))(
        *jnp.linalg.eigh(symmetric(x))
    ),
    "eigh of complex numbers": lambda x: jnp.linalg.eigvalsh(
        definite(x) + 1j * (x - x.swapaxes(-1, -2))
    ),
    "gradient of eigh": jax.grad(lambda x: (jnp.linalg.eigvalsh(symmetric(x)) ** 3).sum()),
    "svdvals": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "svd": lambda x: scaled(*jnp.linalg.svd(x, full_matrices=False)),
    "svd, tall": lambda x: scaled(*jnp.linalg.svd(x[..., :2], full_matrices=False)),
    "svd, full": lambda x: scaled(*jnp.linalg.svd(x)),
    "lu": lax.linalg.lu,
    "lu, wide": lambda x: lax.linalg.lu(x[..., :2, :])[0],
    "lu_solve": lambda x: jsp.linalg.lu_solve(jsp.linalg.lu_factor(definite(x)), x),
    "slogdet": jnp.linalg.slogdet,
    "solve": lambda x: jnp.linalg.solve(definite(x), x),
    "inv": lambda x: jnp.linalg.inv(definite(x)),
    "det": lambda x: jnp.linalg.det(definite(x)),
    "solve_triangular": lambda x: jsp.linalg.solve_triangular(definite(x), x, lower=True),
    "solve_triangular, transposed": lambda x: lax.linalg.triangular_solve(
        definite(x), x, left_side=False, transpose_a=True, unit_diagonal=True
    ),
    "solve_triangular of complex numbers": lambda x: lax.linalg.triangular_solve(
        definite(x) + 1j * x, x + 0j, left_side=True, lower=True, conjugate_a=True
    ),
    "tridiagonal": lambda x: abs(lax.linalg.tridiagonal(symmetric(x))[2]),
    "hessenberg": lambda x: lax.linalg.hessenberg(x)[0],
    "pinv": lambda x: jnp.linalg.pinv(x[..., :2]),
    "eigvals": lambda x: jnp.sort(abs(jnp.linalg.eigvals(x)), -1),
    "matrix_power": lambda x: jnp.linalg.matrix_power(x, 3),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", mostly_wide(BATCHED, ["cholesky", "eigh", "solve"]))
def test_batches_of_matrices(name: str) -> None:
    every_size(BATCHED[name], "b, 4, 4", sizes=(1, 7))


def gram(x: jax.Array) -> jax.Array:
    return x @ x.T + 4 * jnp.eye(x.shape[0])


SYMBOLIC: dict[str, Callable[[jax.Array], Any]] = {
    "cholesky": lambda x: jnp.linalg.cholesky(gram(x)),
    "solve": lambda x: jnp.linalg.solve(gram(x) + x[:, :1], x),
    "inv": lambda x: jnp.linalg.inv(gram(x)),
    "log determinant": lambda x: jnp.linalg.slogdet(gram(x)),
    "cho_solve": lambda x: jsp.linalg.cho_solve(jsp.linalg.cho_factor(gram(x)), x),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", mostly_wide(SYMBOLIC, ["solve"]))
def test_matrices_of_symbolic_extents(name: str) -> None:
    """As many as there are points, in a Gaussian process."""
    every_size(SYMBOLIC[name], "n, 4", sizes=(1, 2, 40))


TRANSFORMS: dict[str, tuple[Callable[[jax.Array], Any], str]] = {
    "fft": (jnp.fft.fft, "b, 8"),
    "rfft": (jnp.fft.rfft, "b, s, 15"),
    "irfft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), "b, 8"),
    "fft2": (jnp.fft.fft2, "b, 8, 6"),
    "fft of an inner axis": (lambda x: jnp.fft.fft(x, axis=1), "b, 8, 3"),
    "one point": (lambda x: jnp.fft.fft(x[:, :1]), "b, 8"),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    function, spec = TRANSFORMS[name]
    every_size(function, spec)


@pytest.mark.costly
@pytest.mark.parametrize("function", [lambda x, y: 0.1 * (x @ y), lambda x, y: (x / 3) @ y])
@pytest.mark.parametrize(
    "specs", [("float64[n, m]", "float64[m, k]"), ("float64[b, n, m]", "float64[b, m, n]")]
)
def test_scaled_products_keep_their_digits(
    function: Callable[[jax.Array, jax.Array], jax.Array], specs: tuple[str, str]
) -> None:
    with jax.enable_x64(True):
        every_size(function, *specs)


def test_grouped_scores_are_not_transposed() -> None:
    """JAX computes the product of keys and queries in the other order. The scores are the largest
    tensor."""

    def scores(q: jax.Array, k: jax.Array) -> jax.Array:
        return jnp.einsum("bshgd,bthd->bhgst", q, k) / 8

    program = every_size(scores, "b, s, 2, 3, 16", "b, t, 2, 16")
    moved = [x for x in program.model.graph if x.op_type == "Transpose"]
    assert len(moved) == 2  # queries and keys
    assert not any({"s", "t"} <= set(map(str, x.outputs[0].shape or ())) for x in moved)


def test_transposed_products_of_computed_extents() -> None:
    """No extent of an input tells how long the slices are: the product keeps its order."""
    x, y = "tensor<2x5x2x4x16xf32>", "tensor<2x7x2x16xf32>"
    text = f"""
    func.func public @main(%x: {x}, %y: {y}, %i: tensor<5xi32>, %j: tensor<5xi32>,
        %k: tensor<4xi32>, %l: tensor<4xi32>) -> tensor<2x2x4x?x?xf32> {{
      %c = stablehlo.constant dense<1> : tensor<5xi32>
      %d = stablehlo.constant dense<1> : tensor<4xi32>
      %0 = stablehlo.real_dynamic_slice %x, %i, %j, %c : ({x}, tensor<5xi32>, tensor<5xi32>,
        tensor<5xi32>) -> tensor<2x?x2x4x16xf32>
      %1 = stablehlo.real_dynamic_slice %y, %k, %l, %d : ({y}, tensor<4xi32>, tensor<4xi32>,
        tensor<4xi32>) -> tensor<2x?x2x16xf32>
      %2 = stablehlo.dot_general %1, %0, batching_dims = [0, 2] x [0, 2],
        contracting_dims = [3] x [4] : (tensor<2x?x2x16xf32>, tensor<2x?x2x4x16xf32>)
        -> tensor<2x2x?x?x4xf32>
      %3 = stablehlo.transpose %2, dims = [0, 1, 4, 3, 2] : (tensor<2x2x?x?x4xf32>)
        -> tensor<2x2x4x?x?xf32>
      return %3 : tensor<2x2x4x?x?xf32>
    }}"""
    program = hlo2onnx.translate(text)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((2, 5, 2, 4, 16)).astype(np.float32)
    b = rng.standard_normal((2, 7, 2, 16)).astype(np.float32)
    firsts = np.array([0, 1, 0, 0, 0], np.int32), np.array([2, 4, 2, 4, 16], np.int32)
    lasts = np.array([0, 2, 0, 0], np.int32), np.array([2, 7, 2, 16], np.int32)
    found = program(a, b, *firsts, *lasts)
    np.testing.assert_allclose(
        found, np.einsum("bshgd,bthd->bhgst", a[:, 1:4], b[:, 2:7]), rtol=1e-5, atol=1e-5
    )


KEY = jax.random.key(3)
RANDOM: dict[str, Callable[[jax.Array], Any]] = {
    "uniform": lambda x: jax.random.uniform(KEY, x.shape),
    "bits": lambda x: jax.random.bits(jax.random.key(1), (x.shape[0],)),
    "normal": lambda x: jax.random.normal(KEY, (x.shape[0], 3)),
    "bernoulli": lambda x: jax.random.bernoulli(KEY, 0.3, x.shape),
    "randint": lambda x: jax.random.randint(KEY, x.shape, 0, 10),
    "categorical": lambda x: jax.random.categorical(KEY, x),
    "fold_in": lambda x: jax.random.uniform(jax.random.fold_in(KEY, x.shape[0]), x.shape),
    "split": lambda x: jax.random.key_data(jax.random.split(KEY, x.shape[0])),
    "rbg": lambda x: jax.random.bits(jax.random.key(0, impl="rbg"), x.shape),
    "philox of 64 bits": lambda x: lax.rng_bit_generator(
        jnp.arange(4, dtype=jnp.uint32), (x.shape[0],), jnp.uint32
    ),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers(name: str) -> None:
    every_size(RANDOM[name], "b, 8")
