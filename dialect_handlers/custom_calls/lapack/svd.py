"""Singular values and singular vectors."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from dialect_handlers.common.linalg.blocks import adjoint
from dialect_handlers.common.linalg.svd import Driver, singular_values, svd
from dialect_handlers.common.nonunique_results import note_choices
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.values import shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call

_PLATFORMS = ("cu", "hip", "oneapi")
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
    *(f"lapack_{dtype}{routine}_ffi" for dtype in "sdcz" for routine in ("gesdd", "gesvd")),
    form="any",
)
def gesdd(em: Emitter, op: CustomCall, *, mode: int) -> list[Parts]:
    """gesdd(a) -> (the overwritten a, s, U, V^H, info)"""
    if mode == ord("O"):
        raise UnsupportedOp(*_WRITES_OVER)
    driver: Driver = "gesvd" if "gesvd" in op.target else "gesdd"
    return _decomposed(em, op, "none" if mode == ord("N") else "U, V^H", driver)


@handles_call(
    *(f"{platform}solver_{name}_ffi" for platform in _PLATFORMS for name in ("gesvd", "gesdd")),
    form="any",
    ignores=_SHAPES,
)
def solver_gesvd(em: Emitter, op: CustomCall, *, compute_uv: bool, transposed: bool) -> list[Parts]:
    """gesvd(a) -> (the overwritten a, s, U, V^H, info), or V^H before U"""
    vectors: Vectors = "V^H, U" if transposed else "U, V^H"
    return _decomposed(em, op, vectors if compute_uv else "none")


@handles_call(
    *(f"{platform}solver_{name}_ffi" for platform in _PLATFORMS for name in ("gesvdj", "gesvdp")),
    form="any",
    ignores=_SHAPES,
)
def solver_gesvdj(em: Emitter, op: CustomCall, *, compute_uv: bool) -> list[Parts]:
    """gesvdj(a) -> (the overwritten a, s, U, V, info)"""
    return _decomposed(em, op, "U, V" if compute_uv else "none")


def _decomposed(
    em: Emitter, op: CustomCall, vectors: Vectors, driver: Driver = "gesdd"
) -> list[Parts]:
    if vectors != "none":
        note_choices(em, "svd")
    a = em.parts(op.operands[0])
    batch = shape_of(a[0])[:-2]
    matrices = (op.result_shape(index)[-2:] for index in (2, 3))
    # oneAPI's stand-ins for vectors that are not wanted are scalars.
    shapes = tuple((*batch, *matrix) if matrix else () for matrix in matrices)
    if any(None in shape for shape in shapes):
        raise UnsupportedOp(*_SYMBOLIC_MATRIX)
    return em.through_jax(decomposition, a, vectors=vectors, shapes=shapes, driver=driver)


def decomposition(
    a: jax.Array,
    *,
    vectors: Vectors,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    driver: Driver = "gesdd",
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
    u, s, vh = svd(a, full_matrices=full, driver=driver)
    both = {"U, V^H": (u, vh), "V^H, U": (vh, u), "U, V": (u, adjoint(vh))}[vectors]
    return a, s, *both, info
