"""Cholesky factors."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from dialect_handlers.common.linalg.blocks import counted, first_where
from dialect_handlers.common.linalg.cholesky import cholesky
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call


@handles_call(*(f"lapack_{dtype}potrf_ffi" for dtype in "sdcz"), form="any")
def potrf(em: Emitter, op: CustomCall, *, uplo: int) -> list[Parts]:
    """potrf(a) -> (factor, info)"""
    return em.through_jax(factor, em.parts(op.operands[0]), lower=chr(uplo) == "L")


@handles_call(*(f"{platform}solver_potrf_ffi" for platform in ("cu", "hip", "oneapi")), form="any")
def solver_potrf(em: Emitter, op: CustomCall, *, lower: bool) -> list[Parts]:
    """potrf(a) -> (factor, info)"""
    return em.through_jax(factor, em.parts(op.operands[0]), lower=lower)


def factor(a: jax.Array, *, lower: bool) -> tuple[jax.Array, jax.Array]:
    """LAPACK's potrf.

    Args:
        a: [..., n, n]; one triangle is read.

    Returns:
        The factor in that triangle, a's elements in the other; and the number, from 1, of the
        first leading minor that is 0 or negative, or 0, i32[...]. NaN is neither.
    """
    found, pivots = cholesky(a, lower=lower)
    i = counted(a.shape[-1])
    mine = i[:, None] >= i if lower else i[:, None] <= i
    return jnp.where(mine, found, a), first_where(pivots <= 0)
