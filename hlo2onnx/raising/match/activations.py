"""Activation functions: the expressions that JAX and others write for each operator.

All are exact to 1e-6 of the largest result, unless that is tiny. Elu and Celu compute exp(x) - 1
for x <= 0, which is off by up to 6e-8 near 0, unlike expm1. Gelu has few digits far below 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as oir

from hlo2onnx.raising.patterns import (
    As,
    Constant,
    Either,
    Name,
    Op,
    Origin,
    Pattern,
    Product,
    Sum,
)

SINGLE = frozenset({oir.DataType.FLOAT, oir.DataType.FLOAT16, oir.DataType.BFLOAT16})
"""Element types in which the kernels are as exact as the expressions."""


@dataclass(frozen=True)
class Activation:
    """An operator and an expression for it.

    Attributes:
        pattern: In terms of x.
        anchor: The operator at the top of it.
        sources: Operators; one of them makes an operand of that one. None stands for any.
        attributes: Fixed attributes.
        parameters: Attributes that are constants of the pattern, by their names in it.
    """

    op_type: str
    anchor: str
    pattern: Pattern
    sources: frozenset[str] | None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)


X = Name("x")
_HALF_ROOT = math.sqrt(0.5)
_ERFC = Either(
    Origin("chlo.erfc", Product(-_HALF_ROOT, X)),
    Origin("chlo.erfc", Product(_HALF_ROOT, Op("Neg", X))),
    Origin("chlo.erfc", Op("Neg", Product(_HALF_ROOT, X))),
    Origin("chlo.erfc", Op("Div", Op("Neg", X), math.sqrt(2))),
)
_ERF = Either(Op("Erf", Product(_HALF_ROOT, X)), Op("Erf", Op("Div", X, math.sqrt(2))))
_CUBE = Either(Product(0.044715, X, X, X), Product(0.044715, Op("Pow", X, 3.0)))
_TANH = Op("Tanh", Product(math.sqrt(2 / math.pi), Sum(X, _CUBE)))

RELU = Either(Op("Relu", X), Op("Max", 0.0, X))
_IS_NAN = Either(Op("IsNaN", X), Op("Not", Op("Equal", X, X)))
_LOG1P = Either(
    Origin("stablehlo.log_plus_one", Op("Exp", Op("Neg", Op("Abs", X)))),
    Op("Softplus", Op("Neg", Op("Abs", X))),
)
# The exponent is not positive, so that the exponential is finite. Softplus takes any number.
_LOG1P_OF_EXP = Origin(
    "stablehlo.log_plus_one", Op("Exp", As("x", Op("Neg", Op("Abs", Name("y")))))
)
_NEGATIVE = As("x", Op("Neg", Name("y")))
_LOG_1_PLUS_EXP = Sum(RELU, _LOG1P)
_SOFTPLUS = Either(
    Op("Where", _IS_NAN, Either(X, Sum(X, 0.0)), _LOG_1_PLUS_EXP),
    Op("Where", Op("Not", Op("Equal", _NEGATIVE, X)), Op("Sub", 0.0, Name("y")), _LOG_1_PLUS_EXP),
)

_IS_POSITIVE = Op("Greater", X, 0.0)
_EXPM1 = Origin("stablehlo.exponential_minus_one", Op("Where", _IS_POSITIVE, 0.0, X))
_EXPM1_OF_MIN = Origin("stablehlo.exponential_minus_one", Op("Min", X, 0.0))

_X_PLUS_3 = Sum(X, 3.0)
_UP_TO_6 = Either(
    Op("Min", 6.0, Either(Op("Max", 0.0, _X_PLUS_3), Op("Relu", _X_PLUS_3))),
    Op("Clip", _X_PLUS_3, 0.0, 6.0),
)

LOGISTIC = Op("Div", 1.0, Sum(1.0, Op("Exp", Op("Neg", X))))

_GELU = Either(Product(0.5, X, _ERFC), Product(0.5, X, Sum(1.0, _ERF)))
_ELU = Op("Where", _IS_POSITIVE, X, _EXPM1)
_SCALED_ELU = Op("Where", _IS_POSITIVE, X, Product(Constant("alpha"), _EXPM1))
_LEAKY = Op("Where", Op("GreaterOrEqual", X, 0.0), X, Product(Constant("alpha"), X))
_ALPHA = {"alpha": "alpha"}
_SIXTH = {"alpha": 1 / 6, "beta": 0.5}


def _by(*op_types: str) -> frozenset[str]:
    return frozenset(op_types)


ACTIVATIONS: tuple[Activation, ...] = (
    Activation("Gelu", "Mul", _GELU, _by("Mul")),
    Activation(
        "Gelu", "Mul", Product(0.5, X, Sum(1.0, _TANH)), _by("Mul"), {"approximate": "tanh"}
    ),
    Activation("Softplus", "Where", _SOFTPLUS, _by("IsNaN", "Not")),
    Activation("Softplus", "Where", _LOG1P_OF_EXP, None),
    Activation("Mish", "Mul", Product(X, Op("Tanh", Op("Softplus", X))), _by("Tanh")),
    Activation("Elu", "Where", _ELU, _by("Greater"), {"alpha": 1.0}),
    Activation("Elu", "Where", _SCALED_ELU, _by("Greater"), parameters=_ALPHA),
    Activation("Celu", "Add", Sum(RELU, _EXPM1_OF_MIN), _by("Max", "Relu"), {"alpha": 1.0}),
    Activation("LeakyRelu", "Where", _LEAKY, _by("GreaterOrEqual"), parameters=_ALPHA),
    Activation("HardSigmoid", "Div", Op("Div", _UP_TO_6, 6.0), _by("Clip", "Min"), _SIXTH),
    Activation("HardSigmoid", "Mul", Product(1 / 6, _UP_TO_6), _by("Clip", "Min"), _SIXTH),
    Activation("HardSwish", "Mul", Product(X, Op("HardSigmoid", X)), _by("HardSigmoid")),
    Activation("Softsign", "Div", Op("Div", X, Sum(1.0, Op("Abs", X))), _by("Add")),
)
