"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dialect_handlers.common.linalg.eigh import eigh
from dialect_handlers.common.nonunique_results import note_choices
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call

_LOWER = ord("L")


@handles_call(
    *(f"lapack_{dtype}evd_ffi" for dtype in ("ssy", "dsy", "che", "zhe")),
    form="any",
    ignores={"mode": "without eigenvectors the first result says nothing"},
)
def syevd(em: Emitter, op: CustomCall, *, uplo: int) -> list[Parts]:
    """syevd(a) -> (eigenvectors, eigenvalues, info)"""
    note_choices(em, "eigh")
    return em.through_jax(decomposition, em.parts(op.operands[0]), lower=uplo == _LOWER)


@handles_call(
    *(f"{platform}solver_syevd_ffi" for platform in ("cu", "hip", "oneapi")),
    form="any",
    ignores={"algorithm": "says how the library computes it"},
)
def solver_syevd(em: Emitter, op: CustomCall, *, lower: bool) -> list[Parts]:
    """syevd(a) -> (eigenvectors, eigenvalues, info)"""
    note_choices(em, "eigh")
    return em.through_jax(decomposition, em.parts(op.operands[0]), lower=lower)


@handles_call("Eigh", form="any")
def tpu_eigh(em: Emitter, op: CustomCall, *, backend_config: str) -> list[Parts]:
    """Eigh(a) -> (eigenvectors, eigenvalues); its config is "lower,sort,sweeps,tolerance" """
    note_choices(em, "eigh")
    lower = backend_config.startswith("1")
    return em.through_jax(eigh, em.parts(op.operands[0]), lower=lower)


def decomposition(a: jax.Array, *, lower: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    """LAPACK's syevd of a [..., n, n]; info, i32[...], is always 0: matrices that are not finite
    give NaN."""
    v, w = eigh(a, lower=lower)
    return v, w, jnp.zeros(a.shape[:-2], np.int32)
