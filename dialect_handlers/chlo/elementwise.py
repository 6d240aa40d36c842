"""CHLO ops with an ONNX operator. MLIR's pass expands the others (`Emitter.expansion`).

In f32 every kernel of ONNX Runtime named here is at least as close to the exact value as XLA's
expansion (largest errors in ULP, runtime against XLA: Acos 5:2, Acosh 2:4, Asin 5:2, Asinh 2:3,
Atan 4:6, Atanh 2:3, Cosh 2:25, Erf 1:5, Sinh 2:25), or within 5 ULP.
"""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.elementwise import one_operator
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

one_operator(
    {
        "chlo.acos": "Acos",
        "chlo.acosh": "Acosh",
        "chlo.asin": "Asin",
        "chlo.asinh": "Asinh",
        "chlo.atan": "Atan",
        "chlo.atanh": "Atanh",
        "chlo.cosh": "Cosh",
        "chlo.erf": "Erf",
        "chlo.is_inf": "IsInf",
        "chlo.sinh": "Sinh",
        "chlo.tan": "Tan",
    }
)


@handles("chlo.is_pos_inf")
def is_pos_inf(em: Emitter, op: Op) -> oir.Value:
    """is_pos_inf(x) -> IsInf(detect_negative=0)."""
    return em.IsInf(em.operand(op), detect_negative=0)


@handles("chlo.is_neg_inf")
def is_neg_inf(em: Emitter, op: Op) -> oir.Value:
    """is_neg_inf(x) -> IsInf(detect_positive=0)."""
    return em.IsInf(em.operand(op), detect_positive=0)


@handles("chlo.square")
def square(em: Emitter, op: Op) -> oir.Value:
    """square(x) = x * x."""
    x = em.operand(op)
    return em.Mul(x, x)
