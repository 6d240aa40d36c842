"""Factors of matrices: Cholesky, LU with partial pivoting, and QR."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from dialect_handlers.common.linalg.blocks import counted, diagonal, first_where
from dialect_handlers.common.linalg.cholesky import cholesky
from dialect_handlers.common.linalg.lu import exchanged, lu
from dialect_handlers.common.linalg.qr import (
    multiply_by_q,
    pivoted_qr,
    product_of_reflections,
    qr,
)
from dialect_handlers.common.row_exchanges import note_order
from dialect_handlers.custom_calls.lapack import gpu, lapack
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.ranges import RANGE, Range
from hlo2onnx.ir.values import shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call


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
