"""Calls: the callee is translated in place."""

from __future__ import annotations

from collections.abc import Mapping

from dialect_handlers.common.onnx_composites import ONNX_PREFIX, named_operator
from dialect_handlers.common.random.threefry import calls_threefry2x32, threefry2x32
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("func.call", form="real")
@handles("func.call", form="complex")
def call(em: Emitter, op: Op, *, callee: str) -> list[Parts]:
    """call @f(args) -> the body of @f, or a function of the model.

    Threefry, JAX's generator of random bits, has its own translation.
    """
    if calls_threefry2x32(em, callee):
        *_, first, second, high, low = em.operands(op)
        return [(word,) for word in threefry2x32(em, (first, second), (high, low))]
    return em.call(callee, [em.parts(operand) for operand in op.operands])


@handles("stablehlo.composite", form="real", ignores={"version": "picks among decompositions"})
@handles("stablehlo.composite", form="complex", ignores={"version": "picks among decompositions"})
def composite(
    em: Emitter,
    op: Op,
    *,
    decomposition: str,
    name: str = "",
    composite_attributes: Mapping[str, object] | None = None,
) -> list[Parts]:
    """composite "name" (args) -> its decomposition; "onnx.<Operator>" -> the operator."""
    if name.startswith(ONNX_PREFIX):
        return named_operator(em, op, name.removeprefix(ONNX_PREFIX), composite_attributes or {})
    return em.call(decomposition, [em.parts(operand) for operand in op.operands], name)
