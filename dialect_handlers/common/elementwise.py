"""Tables of elementwise ops, shared by StableHLO and CHLO."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as oir

from hlo2onnx.ir.accurate_math import rounded_once
from hlo2onnx.ir.notes import note_origin
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

ACCURACY = {"result_accuracy": "a request that XLA on the CPU does not look at either"}


def one_operator(table: Mapping[str, str]) -> None:
    """Registers ops that are one ONNX operator: op name -> operator."""
    for name, op_type in table.items():
        handles(name, ignores=ACCURACY)(_operator(op_type))


def by_element_type(table: Mapping[str, tuple[str, str]]) -> None:
    """Registers ops that are one ONNX operator on numbers, and another on booleans."""
    for name, (on_numbers, on_booleans) in table.items():
        handles(name)(_operator(on_numbers, on_booleans))


def one_formula(table: Mapping[str, Callable[..., oir.Value]]) -> None:
    """Registers ops that are a formula over floats (`hlo2onnx.ir.accurate_math`)."""
    for name, formula in table.items():
        handles(name, ignores=ACCURACY)(_formula(formula))


def _operator(op_type: str, on_booleans: str = "") -> Callable[[Emitter, Op], oir.Value]:
    def handler(em: Emitter, op: Op) -> oir.Value:
        operands = em.operands(op)
        logical = on_booleans and dtype_of(operands[0]) == oir.DataType.BOOL
        return em.op(on_booleans if logical else op_type, *operands)

    handler.__doc__ = f"{op_type}; {on_booleans} for booleans" if on_booleans else op_type
    return handler


def _formula(formula: Callable[..., oir.Value]) -> Callable[[Emitter, Op], oir.Value]:
    def handler(em: Emitter, op: Op) -> oir.Value:
        operands = em.operands(op)
        result = rounded_once(em, formula, *operands)
        note_origin(result, op.name, operands)
        return result

    handler.__doc__ = formula.__doc__
    return handler
