"""Calls: the callee is translated in place."""

from __future__ import annotations

from hlo2onnx.lowering.emitter import Emitter, Parts
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("func.call", form="real")
@handles("func.call", form="complex")
def call(em: Emitter, op: Op, *, callee: str) -> list[Parts]:
    """call @f(args) -> the body of @f, inlined."""
    return em.call(callee, [em.parts(operand) for operand in op.operands])


@handles("stablehlo.composite", form="real", ignores={"version": "picks among decompositions"})
@handles("stablehlo.composite", form="complex", ignores={"version": "picks among decompositions"})
def composite(
    em: Emitter,
    op: Op,
    *,
    decomposition: str,
    name: str = "",
    composite_attributes: object = None,
) -> list[Parts]:
    """composite "name" (args) -> its decomposition, inlined."""
    return em.call(decomposition, [em.parts(operand) for operand in op.operands])
