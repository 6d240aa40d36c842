"""Exact output types of the ONNX operators we emit, known the moment a node is made.

An operator without a rule, or one whose output shape depends on run-time values, must be made
with `types=`; nothing is inferred after the fact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as oir

from hlo2onnx.errors import InternalError
from hlo2onnx.graph.values import Dim, Shape, dtype_of, shape_of

ValueType = tuple[oir.DataType, Shape]
Inputs = Sequence[oir.Value | None]
Attributes = Mapping[str, Any]
Rule = Callable[[Inputs, Attributes, int], list[ValueType]]

RULES: dict[str, Rule] = {}


def rule(*op_types: str) -> Callable[[Rule], Rule]:
    """Registers the type rule of these operators."""

    def register(function: Rule) -> Rule:
        for op_type in op_types:
            if op_type in RULES:
                raise InternalError(f"two type rules for {op_type}")
            RULES[op_type] = function
        return function

    return register


def infer(op_type: str, inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    """Types of a node's outputs.

    Raises:
        InternalError: The operator has no rule, or its operands do not fit it.
    """
    known = RULES.get(op_type)
    if known is None:
        raise InternalError(f"no type rule for {op_type}; make the node with types=")
    try:
        return known(inputs, attributes, n_outputs)
    except InternalError as error:
        shown = ", ".join("-" if x is None else f"{x.dtype}{x.shape}" for x in inputs)
        raise InternalError(f"{op_type}({shown}): {error}") from error


def need(condition: bool, what: str) -> None:
    """Raises InternalError(what) unless the condition holds."""
    if not condition:
        raise InternalError(what)


def operand(inputs: Inputs, index: int) -> oir.Value:
    """The operand at `index`, which must be there."""
    need(index < len(inputs) and inputs[index] is not None, f"operand {index} is missing")
    return inputs[index]  # type: ignore[return-value]


def broadcast_dims(first: Dim, second: Dim) -> Dim:
    """The extent numpy broadcasting gives two extents."""
    if first == second or second == 1:
        return first
    if first == 1:
        return second
    if isinstance(first, int) and isinstance(second, int):
        raise InternalError(f"extents {first} and {second} do not broadcast")
    if isinstance(first, int):
        return first
    if isinstance(second, int):
        return second
    # Operands of StableHLO's ops have equal extents, whatever their expressions.
    return first


def common_dim(first: Dim, second: Dim) -> Dim:
    """The extent that two axes share which the program says are equal."""
    if isinstance(first, int) and isinstance(second, int):
        need(first == second, f"extents {first} and {second} differ")
    return second if isinstance(second, int) else first


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape numpy broadcasting gives."""
    rank = max(map(len, shapes))
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, rank - len(shape)):
            result[axis] = broadcast_dims(result[axis], dim)
    return tuple(result)


def _present(inputs: Inputs) -> list[oir.Value]:
    return [x for x in inputs if x is not None]


def _same_dtype(values: Sequence[oir.Value]) -> oir.DataType:
    dtypes = {dtype_of(x) for x in values}
    need(len(dtypes) == 1, f"operands of different types {sorted(d.name for d in dtypes)}")
    return dtypes.pop()


@rule(
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos", "Cosh",
    "CumSum", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity",
    "LeakyRelu", "Log", "LogSoftmax", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu",
    "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Sqrt", "Tan", "Tanh", "Trilu",
    "Swish", "RMSNormalization", "GroupNormalization", "InstanceNormalization",
    "LpNormalization", "Celu", "ThresholdedRelu", "Softsign", "Dropout",
    "ReverseSequence", "ScatterND", "ScatterElements", "TensorScatter",
    "LRN", "MeanVarianceNormalization", "CumProd",
)  # fmt: skip
def _like_first(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    return [(dtype_of(x), shape_of(x))]


@rule("Not", "IsNaN", "IsInf")
def _bool_like_first(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    return [(oir.DataType.BOOL, shape_of(operand(inputs, 0)))]


@rule(
    "Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Max", "Mean", "Min", "Mod",
    "Mul", "Sub", "Sum",
)  # fmt: skip
def _arithmetic(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    values = _present(inputs)
    return [(_same_dtype(values), broadcast_shapes(*map(shape_of, values)))]


@rule("Pow", "PRelu")
def _first_dtype(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    values = _present(inputs)
    return [(dtype_of(values[0]), broadcast_shapes(*map(shape_of, values)))]


@rule("And", "Or", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
def _predicate(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    values = _present(inputs)
    _same_dtype(values)
    return [(oir.DataType.BOOL, broadcast_shapes(*map(shape_of, values)))]


@rule("Where")
def _where(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    condition, *branches = _present(inputs)
    need(dtype_of(condition) == oir.DataType.BOOL, "the condition is not bool")
    shape = broadcast_shapes(shape_of(condition), *map(shape_of, branches))
    return [(_same_dtype(branches), shape)]


@rule("Clip")
def _clip(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    _same_dtype(_present(inputs))
    return _like_first(inputs, attributes, n_outputs)


@rule("Cast")
def _cast(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    return [(oir.DataType(attributes["to"]), shape_of(operand(inputs, 0)))]


@rule("BitCast")
def _bit_cast(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x, target = operand(inputs, 0), oir.DataType(attributes["to"])
    need(dtype_of(x).bitwidth == target.bitwidth, "BitCast between types of unlike width")
    return [(target, shape_of(x))]


@rule("QuantizeLinear")
def _quantize(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    return [(dtype_of(operand(inputs, 2)), shape_of(operand(inputs, 0)))]


@rule("DequantizeLinear")
def _dequantize(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    return [(dtype_of(operand(inputs, 1)), shape_of(operand(inputs, 0)))]


@rule("LayerNormalization", "BatchNormalization")
def _first_output_only(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    need(n_outputs == 1, "only the first output has a type rule")
    return _like_first(inputs, attributes, n_outputs)


from hlo2onnx.graph import infer_shapes as _infer_shapes  # noqa: E402, F401  (registers its rules)
from hlo2onnx.graph import infer_subgraphs as _infer_subgraphs  # noqa: E402, F401  (as well)
