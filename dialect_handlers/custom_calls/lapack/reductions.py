"""Matrices reduced to Hessenberg form, and Hermitian ones to tridiagonal form."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dialect_handlers.common.linalg.blocks import adjoint, over_batch
from dialect_handlers.common.linalg.condensed_forms import hessenberg, tridiagonalize
from dialect_handlers.custom_calls.lapack import gpu, lapack
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call


@handles_call(*lapack("gehrd"), form="any")
def gehrd(em: Emitter, op: CustomCall, *, low: int, high: int) -> list[Parts]:
    """gehrd(a) -> (H and the reflections, taus, info)"""
    return em.through_jax(hessenberg_results, em.parts(op.operands[0]), low=low - 1, high=high)


def hessenberg_results(
    a: jax.Array, *, low: int, high: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """LAPACK's gehrd of a [..., n, n]: H, and below it the vectors of the reflections; the n - 1
    factors tau; and info, which is 0.

    Args:
        low, high: Rows and columns outside of low .. high - 1 are left out.
    """
    packed, tau = over_batch(lambda a: _packed(a, low, high), 2, a)
    return packed, tau, jnp.zeros(a.shape[:-2], np.int32)


def _packed(a: jax.Array, low: int, high: int) -> tuple[jax.Array, jax.Array]:
    n = a.shape[0]
    if n <= 1:
        return a, jnp.zeros(0, a.dtype)
    h, reflections = hessenberg(a, low, high)
    v = jnp.pad(reflections.v.T, [(0, 0), (0, 1)])
    return jnp.where(np.tri(n, k=-2, dtype=bool), v, h), reflections.tau


@handles_call(
    *lapack("trd", "ssy", "dsy", "che", "zhe"),
    form="any",
)
def sytrd(em: Emitter, op: CustomCall, *, uplo: int) -> list[Parts]:
    """sytrd(a) -> (the reflections around T, d, e, taus, info)"""
    return em.through_jax(tridiagonal_results, em.parts(op.operands[0]), lower=uplo == ord("L"))


@handles_call(
    *gpu("solver_sytrd_ffi"),
    form="any",
)
def solver_sytrd(em: Emitter, op: CustomCall, *, lower: bool) -> list[Parts]:
    """sytrd(a) -> (the reflections around T, d, e, taus, info)"""
    return em.through_jax(tridiagonal_results, em.parts(op.operands[0]), lower=lower)


def tridiagonal_results(a: jax.Array, *, lower: bool) -> tuple[jax.Array, ...]:
    """LAPACK's sytrd of a [..., n, n]: T and the vectors of the reflections in one triangle, with A
    in the other; the real diagonal and off-diagonal of T; the n - 1 factors tau; and info, which
    is 0."""
    function = _lower if lower else _upper
    return *over_batch(function, 2, a), jnp.zeros(a.shape[:-2], np.int32)


def _lower(a: jax.Array) -> tuple[jax.Array, ...]:
    n = a.shape[0]
    below = jnp.tril(a, -1)
    real = jnp.where(np.eye(n, dtype=bool), a.real, 0)
    d, e, reflections = tridiagonalize(below + adjoint(below) + real)
    v = jnp.pad(reflections.v.T, [(0, 0), (0, 1)])
    triangle = jnp.diag(d) + jnp.diag(e, -1) + jnp.tril(v, -2)
    return jnp.where(np.tri(n, dtype=bool), triangle, a), d, e, reflections.tau


def _upper(a: jax.Array) -> tuple[jax.Array, ...]:
    """With rows and columns in reverse order the upper triangle is the lower one."""
    packed, d, e, tau = _lower(a[::-1, ::-1])
    return packed[::-1, ::-1], d[::-1], e[::-1], tau[::-1]
