"""Schur forms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dialect_handlers.common.linalg.schur import schur
from dialect_handlers.common.nonunique_results import note_choices
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call


@handles_call(*(f"lapack_{dtype}gees_ffi" for dtype in "sdcz"), form="any")
def gees(em: Emitter, op: CustomCall, *, mode: int, sort: int) -> list[Parts]:
    """gees(a) -> (T, Z, eigenvalues or their two parts, number selected, info)"""
    if sort != ord("N"):
        raise UnsupportedOp(
            "it sorts eigenvalues by a function that is not part of the program",
            "use sort=None",
        )
    note_choices(em, "schur")
    return em.through_jax(form, em.parts(op.operands[0]), vectors=mode == ord("V"))


def form(a: jax.Array, *, vectors: bool) -> tuple[jax.Array, ...]:
    """LAPACK's gees of a [..., n, n], selecting none; vectors that are not wanted are 0."""
    found = schur(a, vectors=vectors)
    z = found.z if vectors else jnp.zeros_like(a)
    w = (found.w,) if jnp.iscomplexobj(a) else (found.w.real, found.w.imag)
    return found.t, z, *w, jnp.zeros(a.shape[:-2], np.int32), found.info
