"""chlo.erfc: the complementary error function in f16 and bf16."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.accurate_math import rounded_once
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.notes import HALF_TYPES, note_origin
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

_LOG_OF_TAIL = (
    -23.8287035, 47.7373663, -31.7875890, 5.51894443, -0.306471341, 1.57581309, 1.99703358,
    -0.572320659,
)  # fmt: skip
"""p(t) from the highest power down: an approximation of log(erfc(x) / t) + x² for x >= 0. The error
is at most 7.5e-7."""


@handles("chlo.erfc")
def erfc(em: Emitter, op: Op) -> list[Parts]:
    """erfc(x) = t exp(p(t) - x²) with t = 1 / (2 + |x|), for f16 and bf16.

    MLIR expands the op in other types into StableHLO.
    """
    x = em.operand(op)
    if dtype_of(x) not in HALF_TYPES:
        return em.expansion(op)
    result = rounded_once(em, _in_f32, x)
    note_origin(result, op.name, [x])
    return [(result,)]


def _in_f32(b: GraphBuilder, x: oir.Value) -> oir.Value:
    two = b.scalar_like(2, x)
    t = b.Reciprocal(b.Add(b.Abs(x), two))
    p, *others = (b.scalar_like(coefficient, x) for coefficient in _LOG_OF_TAIL)
    for coefficient in others:
        p = b.Add(b.Mul(p, t), coefficient)
    tail = b.Mul(b.Exp(b.Sub(p, b.Mul(x, x))), t)
    return b.Where(b.Less(x, b.scalar_like(0, x)), b.Sub(two, tail), tail)
