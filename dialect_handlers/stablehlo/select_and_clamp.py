"""select and clamp."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import rank_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.select", form="parts")
def select(em: Emitter, op: Op) -> oir.Value:
    """select(pred, on_true, on_false) -> Where; a scalar pred broadcasts."""
    return em.Where(*em.operands(op))


@handles("stablehlo.clamp")
def clamp(em: Emitter, op: Op) -> oir.Value:
    """clamp(lo, x, hi) = min(max(lo, x), hi); NaN if any operand is NaN.

    Clip does the same for scalar bounds, but ignores a bound that is NaN.
    """
    lo, x, hi = em.operands(op)
    clamped: oir.Value
    if not rank_of(lo) and not rank_of(hi) and em.facts.nan_free(lo) and em.facts.nan_free(hi):
        clamped = em.Clip(x, lo, hi)
    else:
        clamped = em.Min(em.Max(x, lo), hi)
    return clamped
