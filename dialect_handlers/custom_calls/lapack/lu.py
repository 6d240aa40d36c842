"""LU factors with partial pivoting, and what their row exchanges amount to."""

from __future__ import annotations

import jax

from dialect_handlers.common.linalg.blocks import diagonal, first_where
from dialect_handlers.common.linalg.lu import exchanged, lu
from dialect_handlers.common.row_exchanges import note_order
from hlo2onnx.ir.ranges import RANGE, Range
from hlo2onnx.ir.values import shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call


@handles_call(
    *(f"lapack_{dtype}getrf_ffi" for dtype in "sdcz"),
    *(f"{platform}solver_getrf_ffi" for platform in ("cu", "hip", "oneapi")),
    form="any",
)
def getrf(em: Emitter, op: CustomCall) -> list[Parts]:
    """getrf(a) -> (L and U, 1-based pivots, info)"""
    a = em.parts(op.operands[0])
    packed, pivots, info, order = em.through_jax(factors, a)
    rows = shape_of(a[0])[-2]
    if isinstance(rows, int):
        pivots[0].meta[RANGE] = Range(1, max(rows, 1))
        order[0].meta[RANGE] = Range(0, max(rows - 1, 0))
        info[0].meta[RANGE] = Range(0, rows)
    note_order(pivots[0], order[0])
    return [packed, pivots, info]


def factors(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
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


@handles_call(*(f"{platform}_lu_pivots_to_permutation" for platform in ("cu", "hip", "oneapi")))
def lu_pivots_to_permutation(em: Emitter, op: CustomCall) -> list[Parts]:
    """lu_pivots_to_permutation(pivots) -> the permutation of the rows"""
    return em.through_jax(exchanged, em.operand(op), rows=em.result_dims(op)[-1])
