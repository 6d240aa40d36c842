"""Families of ONNX operators that rules and legalization treat alike, and other domains."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import onnx
import onnx_ir as oir

from hlo2onnx.ir.traversal import all_nodes

UNARY = frozenset(
    {"Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil",
     "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish",
     "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round",
     "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish", "Tan",
     "Tanh", "ThresholdedRelu", "BitCast"}
)  # fmt: skip
"""One operand, the same function of each element."""

BROADCASTING = frozenset(
    {"Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater",
     "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Or", "Pow", "Sub",
     "Sum", "Where", "Xor"}
)  # fmt: skip
"""Several operands broadcast against each other as in numpy, one function of each element."""

RESHAPES = frozenset({"Reshape", "Squeeze", "Unsqueeze"})
"""The same elements in the same order, in another shape."""

REDUCTIONS = frozenset(
    {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
     "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"}
)  # fmt: skip
"""Reductions: one number for all elements along some axes."""

LOOPS = frozenset({"Loop", "Scan"})
"""Loops: a body runs several times. It may read values that are not operands."""

ELEMENTWISE = UNARY | BROADCASTING | {"Clip"}


def qualified(domain: str, op_type: str) -> str:
    """The temporary name of an operator of another domain."""
    return f"{domain}::{op_type}" if domain else op_type


def restore_names(graph: oir.Graph) -> None:
    """Gives the nodes of other domains their operators' own names."""
    for node in all_nodes(graph):
        if node.domain:
            node.op_type = node.op_type.removeprefix(f"{node.domain}::")


FORM_OPSET: Final = 18
"""The oldest opset whose form nodes have before legalization."""


@cache
def schema_of(op_type: str, opset: int) -> Any:
    """The schema that the nodes of an operator of the default domain follow.

    Raises:
        onnx.defs.SchemaError: ONNX has no such operator.
    """
    return onnx.defs.get_schema(op_type, max(opset, FORM_OPSET), "")
