"""Eigenvalues, Schur forms, and singular values, with their vectors."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from dialect_handlers.common.linalg.blocks import adjoint
from dialect_handlers.common.linalg.eig import eig
from dialect_handlers.common.linalg.eigh import eigh
from dialect_handlers.common.linalg.schur import schur
from dialect_handlers.common.linalg.svd import singular_values, svd
from dialect_handlers.custom_calls.lapack import gpu, lapack
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.values import shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call

_CHOICES = {
    "eigh": "eigenvectors are unique only up to a sign or phase, in the space of equal eigenvalues",
    "eig": "eigenvectors are unique only up to a sign or phase, eigenvalues up to their order",
    "svd": "singular vectors are unique only up to a sign or phase, in the space of equal values",
    "schur": "Schur forms are unique only up to signs or phases and the order of the eigenvalues",
}
"""What is not unique in a decomposition: results of XLA may differ, and both are right."""


def _note_choices(em: Emitter, of: Literal["eigh", "eig", "svd", "schur"]) -> None:
    """Adds a note that results may differ from XLA's."""
    em.report.note(f"{_CHOICES[of]}: XLA may choose others")


_WANTED = ord("V")


@handles_call(*lapack("geev"), form="any")
def geev(em: Emitter, op: CustomCall, *, compute_left: int, compute_right: int) -> list[Parts]:
    """geev(a) -> (eigenvalues or their two parts, left and right eigenvectors, info)"""
    return _eig(em, op, left=compute_left == _WANTED, right=compute_right == _WANTED)


@handles_call(
    *gpu("hybrid_eig_real"),
    *gpu("hybrid_eig_comp"),
    form="any",
    ignores={"magma": "says which library computes it"},
)
def hybrid_eig(em: Emitter, op: CustomCall, *, left: bool, right: bool) -> list[Parts]:
    """geev(a) -> (eigenvalues or their two parts, left and right eigenvectors, info)"""
    return _eig(em, op, left=left, right=right)


def _eig(em: Emitter, op: CustomCall, *, left: bool, right: bool) -> list[Parts]:
    _note_choices(em, "eig")
    return em.through_jax(eig_results, em.parts(op.operands[0]), left=left, right=right)


def eig_results(a: jax.Array, *, left: bool, right: bool) -> tuple[jax.Array, ...]:
    """LAPACK's geev of a [..., n, n]; vectors that are not wanted are 0."""
    found = eig(a, left=left, right=right)
    w = (found.w,) if jnp.iscomplexobj(a) else (found.w.real, found.w.imag)
    nothing = jnp.zeros(a.shape, found.w.dtype)
    vectors = (nothing if x is None else x for x in (found.left, found.right))
    return *w, *vectors, found.info


@handles_call(
    *lapack("evd", "ssy", "dsy", "che", "zhe"),
    form="any",
    ignores={"mode": "without eigenvectors the first result says nothing"},
)
def syevd(em: Emitter, op: CustomCall, *, uplo: int) -> list[Parts]:
    """syevd(a) -> (eigenvectors, eigenvalues, info)"""
    _note_choices(em, "eigh")
    return em.through_jax(eigh_results, em.parts(op.operands[0]), lower=uplo == ord("L"))


@handles_call(
    *gpu("solver_syevd_ffi"),
    form="any",
    ignores={"algorithm": "says how the library computes it"},
)
def solver_syevd(em: Emitter, op: CustomCall, *, lower: bool) -> list[Parts]:
    """syevd(a) -> (eigenvectors, eigenvalues, info)"""
    _note_choices(em, "eigh")
    return em.through_jax(eigh_results, em.parts(op.operands[0]), lower=lower)


@handles_call("Eigh", form="any")
def tpu_eigh(em: Emitter, op: CustomCall, *, backend_config: str) -> list[Parts]:
    """Eigh(a) -> (eigenvectors, eigenvalues); its config is "lower,sort,sweeps,tolerance" """
    _note_choices(em, "eigh")
    lower = backend_config.startswith("1")
    return em.through_jax(eigh, em.parts(op.operands[0]), lower=lower)


def eigh_results(a: jax.Array, *, lower: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    """LAPACK's syevd of a [..., n, n]; info, i32[...], is always 0: matrices that are not finite
    give NaN."""
    v, w = eigh(a, lower=lower)
    return v, w, jnp.zeros(a.shape[:-2], np.int32)


@handles_call(*lapack("gees"), form="any")
def gees(em: Emitter, op: CustomCall, *, mode: int, sort: int) -> list[Parts]:
    """gees(a) -> (T, Z, eigenvalues or their two parts, number selected, info)"""
    if sort != ord("N"):
        raise UnsupportedOp(
            "it sorts eigenvalues by a function that is not part of the program",
            "use sort=None",
        )
    _note_choices(em, "schur")
    return em.through_jax(schur_results, em.parts(op.operands[0]), vectors=mode == ord("V"))


def schur_results(a: jax.Array, *, vectors: bool) -> tuple[jax.Array, ...]:
    """LAPACK's gees of a [..., n, n], selecting none; vectors that are not wanted are 0."""
    found = schur(a, vectors=vectors)
    z = found.z if vectors else jnp.zeros_like(a)
    w = (found.w,) if jnp.iscomplexobj(a) else (found.w.real, found.w.imag)
    return found.t, z, *w, jnp.zeros(a.shape[:-2], np.int32), found.info


_SHAPES = {"full_matrices": "the shapes of the results say it"}
_WRITES_OVER = (
    "mode 'O' overwrites its operand with singular vectors",
    "use mode 'A' (all vectors), 'S' (one per singular value) or 'N' (none)",
)

_SYMBOLIC_MATRIX = (
    "the extents of the matrices are symbolic",
    "lower the function for matrices with static extents",
)
Vectors = Literal["U, V^H", "V^H, U", "U, V", "none"]
"""The third and the fourth result."""


@handles_call(
    *lapack("gesdd"),
    *lapack("gesvd"),
    form="any",
)
def gesdd(em: Emitter, op: CustomCall, *, mode: int) -> list[Parts]:
    """gesdd(a) -> (the overwritten a, s, U, V^H, info)"""
    if mode == ord("O"):
        raise UnsupportedOp(*_WRITES_OVER)
    return _svd(em, op, "none" if mode == ord("N") else "U, V^H")


@handles_call(
    *gpu("solver_gesvd_ffi"),
    *gpu("solver_gesdd_ffi"),
    form="any",
    ignores=_SHAPES,
)
def solver_gesvd(em: Emitter, op: CustomCall, *, compute_uv: bool, transposed: bool) -> list[Parts]:
    """gesvd(a) -> (the overwritten a, s, U, V^H, info), or V^H before U"""
    vectors: Vectors = "V^H, U" if transposed else "U, V^H"
    return _svd(em, op, vectors if compute_uv else "none")


@handles_call(
    *gpu("solver_gesvdj_ffi"),
    *gpu("solver_gesvdp_ffi"),
    form="any",
    ignores=_SHAPES,
)
def solver_gesvdj(em: Emitter, op: CustomCall, *, compute_uv: bool) -> list[Parts]:
    """gesvdj(a) -> (the overwritten a, s, U, V, info)"""
    return _svd(em, op, "U, V" if compute_uv else "none")


def _svd(em: Emitter, op: CustomCall, vectors: Vectors) -> list[Parts]:
    if vectors != "none":
        _note_choices(em, "svd")
    a = em.parts(op.operands[0])
    batch = shape_of(a[0])[:-2]
    matrices = (op.result_shape(index)[-2:] for index in (2, 3))
    # oneAPI's stand-ins for vectors that are not wanted are scalars.
    shapes = tuple((*batch, *matrix) if matrix else () for matrix in matrices)
    if any(None in shape for shape in shapes):
        raise UnsupportedOp(*_SYMBOLIC_MATRIX)
    return em.through_jax(svd_results, a, vectors=vectors, shapes=shapes)


def svd_results(
    a: jax.Array,
    *,
    vectors: Vectors,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> tuple[jax.Array, ...]:
    """LAPACK's gesdd or gesvd of a [..., m, n], with the result order of other libraries.

    Args:
        shapes: The shapes of the vectors; vectors that were not requested are zeros.

    Returns:
        The operand, for the overwritten matrix; s; the vectors; and info, i32[...], always 0:
        matrices that are not finite give NaN.
    """
    info = jnp.zeros(a.shape[:-2], np.int32)
    if vectors == "none":
        return a, singular_values(a), *(jnp.zeros(shape, a.dtype) for shape in shapes), info
    full = all(shape[-1] == shape[-2] for shape in shapes)
    u, s, vh = svd(a, full_matrices=full)
    both = {"U, V^H": (u, vh), "V^H, U": (vh, u), "U, V": (u, adjoint(vh))}[vectors]
    return a, s, *both, info
