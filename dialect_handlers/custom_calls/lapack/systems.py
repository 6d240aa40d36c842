"""Systems of equations with triangular and tridiagonal matrices."""

from __future__ import annotations

from dialect_handlers.common.linalg.blocks import ADJOINT, NO_TRANSPOSE, TRANSPOSE
from dialect_handlers.common.linalg.triangular import solve_triangular
from dialect_handlers.common.linalg.tridiagonal import solve_perturbed, solve_tridiagonal
from dialect_handlers.custom_calls.lapack import gpu, lapack
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call

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
