"""Elementwise ops that are one ONNX operator in every element type: rows of a table."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as oir

from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

ACCURACY = {"result_accuracy": "every kernel of the target is at least as accurate as the default"}

ONE_TO_ONE = {
    "stablehlo.abs": "Abs",
    "stablehlo.add": "Add",
    "stablehlo.subtract": "Sub",
    "stablehlo.multiply": "Mul",
    "stablehlo.exponential": "Exp",
    "stablehlo.tanh": "Tanh",
    "stablehlo.sqrt": "Sqrt",
}


def _one_to_one(onnx_op: str) -> Callable[[Emitter, Op], oir.Value]:
    def handler(em: Emitter, op: Op) -> oir.Value:
        result: oir.Value = em.op(onnx_op, *em.operands(op))
        return result

    return handler


for _name, _onnx_op in ONE_TO_ONE.items():
    handles(_name, ignores=ACCURACY)(_one_to_one(_onnx_op))
