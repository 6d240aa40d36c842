"""Tables of elementwise ops, shared by StableHLO and CHLO."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as oir

from hlo2onnx.ir.accurate_math import rounded_once
from hlo2onnx.ir.notes import note_origin
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

ACCURACY = {"result_accuracy": "a request that XLA on the CPU does not look at either"}


def one_operator(table: Mapping[str, str]) -> None:
    """Registers ops that are one ONNX operator: op name -> operator."""
    for name, op_type in table.items():
        handles(name, ignores=ACCURACY)(_operator(op_type))


def one_formula(table: Mapping[str, Callable[..., oir.Value]]) -> None:
    """Registers ops that are a formula over floats (`hlo2onnx.ir.accurate_math`)."""
    for name, formula in table.items():
        handles(name, ignores=ACCURACY)(_formula(formula))


def _operator(op_type: str) -> Callable[[Emitter, Op], oir.Value]:
    def handler(em: Emitter, op: Op) -> oir.Value:
        return em.op(op_type, *em.operands(op))

    handler.__doc__ = op_type
    return handler


def _formula(formula: Callable[..., oir.Value]) -> Callable[[Emitter, Op], oir.Value]:
    def handler(em: Emitter, op: Op) -> oir.Value:
        operands = em.operands(op)
        result = rounded_once(em, formula, *operands)
        note_origin(result, op.name, operands)
        return result

    handler.__doc__ = formula.__doc__
    return handler
