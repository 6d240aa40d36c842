"""Which operands and results of an operator share the element type that is being carried."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
import onnx_ir as oir

from hlo2onnx.targets.target import MAIN_PARAMETER, OUTPUT


@cache
def _schema(op_type: str, opset: int) -> Any:
    return onnx.defs.get_schema(op_type, opset, "")


def _main_variable(schema: Any) -> str:
    position = MAIN_PARAMETER.get(schema.name, 0)
    parameter = schema.outputs[0] if position == OUTPUT else schema.inputs[position]
    return str(parameter.type_str)


def same_type_inputs(node: oir.Node, opset: int) -> list[int]:
    """Positions of the inputs whose type variable is the operator's main one."""
    schema = _schema(node.op_type, opset)
    variable = _main_variable(schema)
    last = len(schema.inputs) - 1
    return [
        index
        for index in range(len(node.inputs))
        if str(schema.inputs[min(index, last)].type_str) == variable
    ]


def same_type_outputs(node: oir.Node, opset: int) -> list[int]:
    """Positions of the outputs whose type variable is the operator's main one."""
    schema = _schema(node.op_type, opset)
    variable = _main_variable(schema)
    last = len(schema.outputs) - 1
    return [
        index
        for index in range(len(node.outputs))
        if str(schema.outputs[min(index, last)].type_str) == variable
    ]
