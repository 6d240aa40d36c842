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

ELEMENTWISE = UNARY | BROADCASTING | {"Clip"}
