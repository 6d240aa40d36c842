"""Linear algebra lowered for accelerators: their custom calls do what LAPACK's do.

What is not unique (signs of vectors, a basis of a null space) is multiplied out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax import lax

import hlo2onnx

pytestmark = pytest.mark.wide

RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(2, 5, 5)).astype(np.float32)
TALL = RNG.normal(size=(2, 7, 4)).astype(np.float32)
POSITIVE = SQUARE @ SQUARE.swapaxes(1, 2) + 5 * np.eye(5, dtype=np.float32)


def eigh(a: jax.Array) -> Any:
    values, vectors = jnp.linalg.eigh(a)
    return values, (vectors * values[..., None, :]) @ vectors.conj().mT


def svd(a: jax.Array, full: bool = False, algorithm: Any = None) -> Any:
    u, s, vh = lax.linalg.svd(a, full_matrices=full, algorithm=algorithm)
    count = s.shape[-1]
    return s, (u[..., :count] * s[..., None, :]) @ vh[..., :count, :], u @ u.conj().mT


def eig(a: jax.Array) -> Any:
    values, vectors = jnp.linalg.eig(a)
    residual = a @ vectors - vectors * values[..., None, :]
    return a + residual, values.sum(-1), (values**2).sum(-1)


def tridiagonal_solve(a: jax.Array, perturb_singular: bool = False) -> jax.Array:
    dl, d, du = a[..., 0, :], a[..., 1, :] + 5, a[..., 2, :]
    return lax.linalg.tridiagonal_solve(dl, d, du, a[..., :1], perturb_singular=perturb_singular)


def tridiagonal(a: jax.Array, lower: bool = True) -> jax.Array:
    """Their diagonals have the eigenvalues of the matrix."""
    _, d, e, _ = lax.linalg.tridiagonal(a, lower=lower)
    return jnp.stack([d.sum(-1), (d**2).sum(-1) + 2 * (e**2).sum(-1)])


Function = Callable[[jax.Array], Any]

FUNCTIONS: dict[str, tuple[Function, np.ndarray]] = {
    "cholesky": (jnp.linalg.cholesky, POSITIVE),
    "lu": (lax.linalg.lu, TALL),
    "lu of complex numbers": (lambda a: jsl.lu_factor(a + 1j * a.mT), SQUARE),
    "solve": (lambda a: jnp.linalg.solve(a, a[..., :2]), SQUARE),
    "qr": (jnp.linalg.qr, TALL),
    "full qr of complex numbers": (
        lambda a: jnp.linalg.qr(a + 1j * a[::-1], mode="complete"),
        TALL,
    ),
    "pivoted qr": (lambda a: jsl.qr(a, pivoting=True, mode="economic"), TALL[0]),
    "eigh": (eigh, POSITIVE),
    "eigvalsh": (jnp.linalg.eigvalsh, POSITIVE),
    "svd": (svd, TALL),
    "svd of a wide matrix": (lambda a: svd(a.mT), TALL),
    "full svd": (lambda a: svd(a, full=True), TALL),
    "svd of complex numbers": (lambda a: svd(a + 1j * a[::-1]), TALL),
    "svd by QR": (partial(svd, algorithm=lax.linalg.SvdAlgorithm.QR), TALL),
    "svd by polar decomposition": (partial(svd, algorithm=lax.linalg.SvdAlgorithm.POLAR), TALL),
    "q times a matrix": (lambda a: jsl.qr_multiply(a, a.mT[:2]), TALL[0]),
    "singular values": (lambda a: jnp.linalg.svd(a, compute_uv=False), TALL),
    "eig": (eig, SQUARE),
    "eig of complex numbers": (lambda a: eig(a + 1j * a.mT), SQUARE),
    "tridiagonal": (tridiagonal, POSITIVE),
    "upper tridiagonal": (partial(tridiagonal, lower=False), POSITIVE),
    "tridiagonal_solve": (tridiagonal_solve, SQUARE),
    "perturbed": (partial(tridiagonal_solve, perturb_singular=True), SQUARE),
    "approx_max_k": (lambda a: lax.approx_max_k(a, 3), SQUARE),
}
ON_THE_CPU = {"svd by polar decomposition": svd}
"""Where the CPU has another algorithm only."""
NOT_ON = {
    "tpu": {
        "q times a matrix",
        "pivoted qr",
        "eig",
        "eig of complex numbers",
        "tridiagonal",
        "upper tridiagonal",
        "perturbed",
        "svd by QR",
    },
    "oneapi": {"svd by polar decomposition"},
}
"""What JAX does not lower for a platform."""
PLATFORMS = ["cuda", "rocm", "tpu", *(["oneapi"] if jax.__version_info__ >= (0, 12) else [])]
WITHOUT_CALL = {"tpu": {"cholesky", "tridiagonal_solve"}, "oneapi": {"tridiagonal_solve"}}

CASES = [
    (platform, name)
    for platform in PLATFORMS
    for name in FUNCTIONS
    if name not in NOT_ON.get(platform, ())
]


@pytest.mark.parametrize(("platform", "name"), CASES)
def test_as_on_the_cpu(platform: str, name: str) -> None:
    function, x = FUNCTIONS[name]
    lowered = jax.jit(function).trace(x).lower(lowering_platforms=(platform,))
    has_call = re.search(r"custom_call @(?!lapack)", lowered.as_text()) is not None
    assert has_call or name in WITHOUT_CALL.get(platform, ())
    reference = jax.jit(ON_THE_CPU.get(name, function))
    got = jax.tree.leaves(hlo2onnx.translate(lowered)(x))
    for one, other in zip(got, jax.tree.leaves(reference(x)), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5 * abs(other).max())


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_svd_by_qr_on_the_cpu(dtype: str) -> None:
    with jax.enable_x64(True):
        x = (TALL + 1j * TALL[::-1] if dtype.startswith("c") else TALL).astype(dtype)
        function = partial(svd, algorithm=lax.linalg.SvdAlgorithm.QR)
        lowered = jax.jit(function).lower(x)
        assert "gesvd_ffi" in lowered.as_text()
        got = hlo2onnx.translate(lowered)(x)
        limit = 50 * np.finfo(dtype).eps
        for one, other in zip(got, lowered.compile()(x), strict=True):
            np.testing.assert_allclose(one, other, rtol=limit, atol=limit * abs(other).max())
