"""Matrices reduced to Hessenberg form."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dialect_handlers.common.linalg.blocks import over_batch
from dialect_handlers.common.linalg.condensed_forms import hessenberg
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call


@handles_call(*(f"lapack_{dtype}gehrd_ffi" for dtype in "sdcz"), form="any")
def gehrd(em: Emitter, op: CustomCall, *, low: int, high: int) -> list[Parts]:
    """gehrd(a) -> (H and the reflections, taus, info)"""
    return em.through_jax(reduction, em.parts(op.operands[0]), low=low - 1, high=high)


def reduction(a: jax.Array, *, low: int, high: int) -> tuple[jax.Array, jax.Array, jax.Array]:
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
