"""Families of ONNX operators that rules and legalization treat alike."""

from __future__ import annotations

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
"""One number for all elements along some axes."""

LOOPS = frozenset({"Loop", "Scan"})
"""A body runs several times. It may read values that are no operands."""

ELEMENTWISE = UNARY | BROADCASTING | {"Clip"}
