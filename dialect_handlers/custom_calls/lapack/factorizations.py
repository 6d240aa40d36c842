"""Factors of matrices, reductions to few diagonals, and systems of equations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dialect_handlers.common.linalg.blocks import (
    ADJOINT,
    NO_TRANSPOSE,
    TRANSPOSE,
    adjoint,
    counted,
    diagonal,
    first_where,
    over_batch,
)
from dialect_handlers.common.linalg.cholesky import cholesky
from dialect_handlers.common.linalg.condensed_forms import hessenberg, tridiagonalize
from dialect_handlers.common.linalg.lu import exchanged, lu
from dialect_handlers.common.linalg.qr import (
    multiply_by_q,
    pivoted_qr,
    product_of_reflections,
    qr,
)
from dialect_handlers.common.linalg.triangular import solve_triangular
from dialect_handlers.common.linalg.tridiagonal import solve_perturbed, solve_tridiagonal
from dialect_handlers.common.row_exchanges import note_order
from dialect_handlers.custom_calls.lapack import gpu, lapack
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.ranges import RANGE, Range
from hlo2onnx.ir.values import shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call

# -- factors: Cholesky, LU with partial pivoting, and QR ----------------------------------------


@handles_call(*lapack("potrf"), form="any")
def potrf(em: Emitter, op: CustomCall, *, uplo: int) -> list[Parts]:
    """potrf(a) -> (factor, info)"""
    return em.through_jax(cholesky_factor, em.parts(op.operands[0]), lower=chr(uplo) == "L")


@handles_call(*gpu("solver_potrf_ffi"), form="any")
def solver_potrf(em: Emitter, op: CustomCall, *, lower: bool) -> list[Parts]:
    """potrf(a) -> (factor, info)"""
    return em.through_jax(cholesky_factor, em.parts(op.operands[0]), lower=lower)


def cholesky_factor(a: jax.Array, *, lower: bool) -> tuple[jax.Array, jax.Array]:
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


@handles_call(
    *lapack("getrf"),
    *gpu("solver_getrf_ffi"),
    form="any",
)
def getrf(em: Emitter, op: CustomCall) -> list[Parts]:
    """getrf(a) -> (L and U, 1-based pivots, info)"""
    a = em.parts(op.operands[0])
    packed, pivots, info, order = em.through_jax(lu_factors, a)
    rows = shape_of(a[0])[-2]
    if isinstance(rows, int):
        pivots[0].meta[RANGE] = Range(1, max(rows, 1))
        order[0].meta[RANGE] = Range(0, max(rows - 1, 0))
        info[0].meta[RANGE] = Range(0, rows)
    note_order(pivots[0], order[0])
    return [packed, pivots, info]


def lu_factors(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """LAPACK's getrf: the factors of a [..., m, n] packed; for each column the number of the row
    exchanged with its own, from 1; the number, from 1, of the first zero on the diagonal of U, or
    0, i32[...]; and, beyond LAPACK, the rows of A in the order of the factors, i32[..., m]."""
    packed, pivots, order = lu(a)
    m, n = a.shape[-2:]
    rank = m if m == n else min(m, n)
    return packed, pivots + 1, first_where(diagonal(packed[..., :rank, :rank]) == 0), order


@handles_call("LuDecomposition", form="any")
def lu_decomposition(em: Emitter, op: CustomCall) -> list[Parts]:
    """LuDecomposition(a) -> (L and U, 0-based pivots, the permutation of the rows)"""
    return em.through_jax(lu, em.parts(op.operands[0]))


@handles_call(*gpu("_lu_pivots_to_permutation"))
def lu_pivots_to_permutation(em: Emitter, op: CustomCall) -> list[Parts]:
    """lu_pivots_to_permutation(pivots) -> the permutation of the rows"""
    return em.through_jax(exchanged, em.operand(op), rows=em.result_dims(op)[-1])


@handles_call(
    *lapack("geqrf"),
    *gpu("solver_geqrf_ffi"),
    "Qr",
    form="any",
)
def geqrf(em: Emitter, op: CustomCall) -> list[Parts]:
    """geqrf(a) -> (R and the reflections, taus)"""
    return em.through_jax(qr, em.parts(op.operands[0]))


@handles_call(
    *lapack("geqp3"),
    *gpu("hybrid_geqp3"),
    form="any",
    ignores={"magma": "says which library computes it"},
)
def geqp3(em: Emitter, op: CustomCall) -> list[Parts]:
    """geqp3(a, columns) -> (R and the reflections, 1-based permutation of the columns, taus)"""
    a, columns = (em.parts(operand) for operand in op.operands)
    fixed = em.facts.constant(columns[0])
    if fixed is None or fixed.any():
        raise UnsupportedOp(
            "its operand may move some columns to the front first",
            "pass zeros, or permute the columns beforehand",
        )
    return em.through_jax(pivoted_factors, a)


def pivoted_factors(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """LAPACK's geqp3 of a [..., m, n], with no column fixed."""
    packed, order, taus = pivoted_qr(a)
    return packed, order + 1, taus


@handles_call(
    *lapack("gqr", "sor", "dor", "cun", "zun"),
    *gpu("solver_orgqr_ffi"),
    "ProductOfElementaryHouseholderReflectors",
    form="any",
)
def orgqr(em: Emitter, op: CustomCall) -> list[Parts]:
    """orgqr(reflections, taus) -> Q"""
    return em.through_jax(product_of_reflections, *map(em.parts, op.operands))


@handles_call(
    *lapack("mqr", "sor", "dor", "cun", "zun"),
    *gpu("solver_ormqr_ffi"),
    form="any",
)
def ormqr(em: Emitter, op: CustomCall, *, left: bool, transpose: bool) -> list[Parts]:
    """ormqr(reflections, taus, c) -> Q c or c Q, or the same with Q^H"""
    parts = map(em.parts, op.operands)
    return em.through_jax(multiply_by_q, *parts, left=left, adjoint_q=transpose)


# -- reductions to Hessenberg and to tridiagonal form -------------------------------------------


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


# -- triangular and tridiagonal systems ---------------------------------------------------------

_TRANSPOSE = {"N": NO_TRANSPOSE, "T": TRANSPOSE, "C": ADJOINT}


@handles_call(*lapack("trsm"), form="any")
def trsm(
    em: Emitter, op: CustomCall, *, side: int, uplo: int, trans_x: int, diag: int
) -> list[Parts]:
    """trsm(a, b) -> X with op(a) X = b, or X op(a) = b"""
    a, b = (em.parts(operand) for operand in op.operands)
    return em.through_jax(
        solve_triangular,
        a,
        b,
        left_side=chr(side) == "L",
        lower=chr(uplo) == "L",
        unit_diagonal=chr(diag) == "U",
        transpose_a=_TRANSPOSE[chr(trans_x)],
    )


@handles_call(*lapack("gtsv"), form="any")
def gtsv(em: Emitter, op: CustomCall) -> list[Parts]:
    """gtsv(dl, d, du, b) -> (U instead of the diagonals, X, info)"""
    return em.through_jax(solve_tridiagonal, *map(em.parts, op.operands))


@handles_call("cusparse_gtsv2_ffi", "hipsparse_gtsv2_ffi", form="any")
def gtsv2(em: Emitter, op: CustomCall) -> Parts:
    """gtsv2(dl, d, du, b) -> X"""
    return em.through_jax(solve_tridiagonal, *map(em.parts, op.operands))[3]


@handles_call(
    "tridiagonal_solve_perturbed_ffi",
    *gpu("_tridiagonal_solve_perturbed"),
    form="any",
)
def tridiagonal_solve_perturbed(em: Emitter, op: CustomCall) -> list[Parts]:
    """tridiagonal_solve_perturbed(dl, d, du, b) -> X, also for a singular matrix"""
    return em.through_jax(solve_perturbed, *map(em.parts, op.operands))
