"""Systems of equations with tridiagonal matrices."""

from __future__ import annotations

from dialect_handlers.common.linalg.tridiagonal import solve_perturbed, solve_tridiagonal
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call


@handles_call(*(f"lapack_{dtype}gtsv_ffi" for dtype in "sdcz"), form="any")
def gtsv(em: Emitter, op: CustomCall) -> list[Parts]:
    """gtsv(dl, d, du, b) -> (U instead of the diagonals, X, info)"""
    return em.through_jax(solve_tridiagonal, *map(em.parts, op.operands))


@handles_call("cusparse_gtsv2_ffi", "hipsparse_gtsv2_ffi", form="any")
def gtsv2(em: Emitter, op: CustomCall) -> Parts:
    """gtsv2(dl, d, du, b) -> X"""
    return em.through_jax(solve_tridiagonal, *map(em.parts, op.operands))[3]


@handles_call(
    "tridiagonal_solve_perturbed_ffi",
    *(f"{platform}_tridiagonal_solve_perturbed" for platform in ("cu", "hip", "oneapi")),
    form="any",
)
def tridiagonal_solve_perturbed(em: Emitter, op: CustomCall) -> list[Parts]:
    """tridiagonal_solve_perturbed(dl, d, du, b) -> X, also for a singular matrix"""
    return em.through_jax(solve_perturbed, *map(em.parts, op.operands))
