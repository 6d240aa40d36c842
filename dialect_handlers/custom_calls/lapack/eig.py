"""Eigenvalues and eigenvectors of any square matrices."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from dialect_handlers.common.linalg.eig import eig
from dialect_handlers.common.nonunique_results import note_choices
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call

_VECTORS = ord("V")


@handles_call(*(f"lapack_{dtype}geev_ffi" for dtype in "sdcz"), form="any")
def geev(em: Emitter, op: CustomCall, *, compute_left: int, compute_right: int) -> list[Parts]:
    """geev(a) -> (eigenvalues or their two parts, left and right eigenvectors, info)"""
    return _decomposed(em, op, left=compute_left == _VECTORS, right=compute_right == _VECTORS)


@handles_call(
    *(
        f"{platform}hybrid_eig_{field}"
        for platform in ("cu", "hip", "oneapi")
        for field in ("real", "comp")
    ),
    form="any",
    ignores={"magma": "says which library computes it"},
)
def hybrid_eig(em: Emitter, op: CustomCall, *, left: bool, right: bool) -> list[Parts]:
    """geev(a) -> (eigenvalues or their two parts, left and right eigenvectors, info)"""
    return _decomposed(em, op, left=left, right=right)


def _decomposed(em: Emitter, op: CustomCall, *, left: bool, right: bool) -> list[Parts]:
    note_choices(em, "eig")
    return em.through_jax(decomposition, em.parts(op.operands[0]), left=left, right=right)


def decomposition(a: jax.Array, *, left: bool, right: bool) -> tuple[jax.Array, ...]:
    """LAPACK's geev of a [..., n, n]; vectors that are not wanted are 0."""
    found = eig(a, left=left, right=right)
    w = (found.w,) if jnp.iscomplexobj(a) else (found.w.real, found.w.imag)
    nothing = jnp.zeros(a.shape, found.w.dtype)
    vectors = (nothing if x is None else x for x in (found.left, found.right))
    return *w, *vectors, found.info
