"""Which operands and results of an operator share the element type that is being carried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as oir

from hlo2onnx.ir.op_families import schema_of
from hlo2onnx.ir.values import FLOATS
from hlo2onnx.targets.target import MAIN_PARAMETER, OUTPUT, main_dtype


def _main_variable(schema: Any) -> str:
    position = MAIN_PARAMETER.get(schema.name, 0)
    parameter = schema.outputs[0] if position == OUTPUT else schema.inputs[position]
    return str(parameter.type_str)


def _positions(values: Sequence[Any], parameters: Sequence[Any], variables: set[str]) -> list[int]:
    """Positions of the values whose type variable is one of these."""
    last = len(parameters) - 1
    return [
        index
        for index in range(len(values))
        if str(parameters[min(index, last)].type_str) in variables
    ]


def same_type_inputs(node: oir.Node, opset: int) -> list[int]:
    """Positions of the inputs whose type variable is the operator's main one."""
    schema = schema_of(node.op_type, opset)
    return _positions(node.inputs, schema.inputs, {_main_variable(schema)})


def apart_from_outputs(node: oir.Node, position: int, opset: int) -> list[int]:
    """Positions of the inputs that share the type variable of the input at `position`; none if the
    variable is also that of an output, or the operator's main one."""
    schema = schema_of(node.op_type, opset)
    variables = [str(parameter.type_str) for parameter in schema.inputs]
    variable = variables[position]
    if variable in {_main_variable(schema), *(str(result.type_str) for result in schema.outputs)}:
        return []
    present = zip(variables, node.inputs, strict=False)
    return [at for at, (other, x) in enumerate(present) if other == variable and x is not None]


def carried_inputs(node: oir.Node, opset: int) -> list[int]:
    """Positions of the inputs that change type when the node is carried: those of the main type
    variable, and floats of the same type under another variable (the exponent of Pow, the scale of
    BatchNormalization), which no kernel takes with a wider main operand."""
    schema = schema_of(node.op_type, opset)
    return _positions(node.inputs, schema.inputs, _carried_variables(node, schema))


def carried_outputs(node: oir.Node, opset: int) -> list[int]:
    """Positions of the outputs of those type variables."""
    schema = schema_of(node.op_type, opset)
    return _positions(node.outputs, schema.outputs, _carried_variables(node, schema))


def _carried_variables(node: oir.Node, schema: Any) -> set[str]:
    variables = {_main_variable(schema)}
    dtype = main_dtype(node)
    if dtype in FLOATS:
        last = len(schema.inputs) - 1
        variables |= {
            str(schema.inputs[min(index, last)].type_str)
            for index, x in enumerate(node.inputs)
            if x is not None and x.dtype == dtype
        }
    return variables
