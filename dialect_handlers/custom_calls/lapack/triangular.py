"""Systems of equations with triangular matrices."""

from __future__ import annotations

from dialect_handlers.common.linalg.blocks import ADJOINT, NO_TRANSPOSE, TRANSPOSE
from dialect_handlers.common.linalg.triangular import solve_triangular
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call

_TRANSPOSE = {"N": NO_TRANSPOSE, "T": TRANSPOSE, "C": ADJOINT}


@handles_call(*(f"lapack_{dtype}trsm_ffi" for dtype in "sdcz"), form="any")
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
