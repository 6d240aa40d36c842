"""QR factors: the factorization, and operations on the reflections that form Q."""

from __future__ import annotations

import jax

from dialect_handlers.common.linalg.householder import multiply_by_q, product_of_reflections, qr
from dialect_handlers.common.linalg.pivoted_qr import pivoted_qr
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call

_PLATFORMS = ("cu", "hip", "oneapi")


@handles_call(
    *(f"lapack_{dtype}geqrf_ffi" for dtype in "sdcz"),
    *(f"{platform}solver_geqrf_ffi" for platform in _PLATFORMS),
    "Qr",
    form="any",
)
def geqrf(em: Emitter, op: CustomCall) -> list[Parts]:
    """geqrf(a) -> (R and the reflections, taus)"""
    return em.through_jax(qr, em.parts(op.operands[0]))


@handles_call(
    *(f"lapack_{dtype}geqp3_ffi" for dtype in "sdcz"),
    *(f"{platform}hybrid_geqp3" for platform in _PLATFORMS),
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
    *(f"lapack_{dtype}gqr_ffi" for dtype in ("sor", "dor", "cun", "zun")),
    *(f"{platform}solver_orgqr_ffi" for platform in _PLATFORMS),
    "ProductOfElementaryHouseholderReflectors",
    form="any",
)
def orgqr(em: Emitter, op: CustomCall) -> list[Parts]:
    """orgqr(reflections, taus) -> Q"""
    return em.through_jax(product_of_reflections, *map(em.parts, op.operands))


@handles_call(
    *(f"lapack_{dtype}mqr_ffi" for dtype in ("sor", "dor", "cun", "zun")),
    *(f"{platform}solver_ormqr_ffi" for platform in _PLATFORMS),
    form="any",
)
def ormqr(em: Emitter, op: CustomCall, *, left: bool, transpose: bool) -> list[Parts]:
    """ormqr(reflections, taus, c) -> Q c or c Q, or the same with Q^H"""
    parts = map(em.parts, op.operands)
    return em.through_jax(multiply_by_q, *parts, left=left, adjoint_q=transpose)
