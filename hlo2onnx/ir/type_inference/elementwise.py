"""Type rules of the elementwise operators."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.op_families import BROADCASTING, UNARY
from hlo2onnx.ir.shapes import broadcast_shapes
from hlo2onnx.ir.threefry import THREEFRY
from hlo2onnx.ir.type_inference.registry import Attributes, Inputs, ValueType, need, operand, rule
from hlo2onnx.ir.values import dtype_of, present, shape_of


def _same_dtype(values: Sequence[oir.Value]) -> oir.DataType:
    dtypes = list(map(dtype_of, values))
    if dtypes.count(dtypes[0]) < len(dtypes):
        raise InternalError(f"operands of different types {sorted({x.name for x in dtypes})}")
    return dtypes[0]


_OF_OTHER_TYPE = frozenset({"BitCast", "Cast", "IsInf", "IsNaN", "Not"})
_PREDICATES = frozenset(
    {"And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or", "Xor"}
)


@rule(
    *(UNARY - _OF_OTHER_TYPE), "CumProd", "CumSum", "Dropout", "GroupNormalization", "Identity",
    "InstanceNormalization", "LRN", "LogSoftmax", "LpNormalization",
    "MeanVarianceNormalization", "RMSNormalization", "ReverseSequence", "ScatterElements",
    "ScatterND", "Softmax", "TensorScatter", "Trilu",
)  # fmt: skip
def _like_first(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    return [(dtype_of(x), shape_of(x))]


@rule("Not", "IsNaN", "IsInf")
def _bool_like_first(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    return [(oir.DataType.BOOL, shape_of(operand(inputs, 0)))]


@rule(*(BROADCASTING - _PREDICATES - {"Pow", "Where"}), "Mean")
def _arithmetic(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    values = present(inputs)
    return [(_same_dtype(values), broadcast_shapes(*map(shape_of, values)))]


@rule(THREEFRY)
def _random_words(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    return _arithmetic(inputs, attributes, n_outputs) * 2


@rule("Pow", "PRelu")
def _first_dtype(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    values = present(inputs)
    return [(dtype_of(values[0]), broadcast_shapes(*map(shape_of, values)))]


@rule(*_PREDICATES)
def _predicate(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    values = present(inputs)
    _same_dtype(values)
    return [(oir.DataType.BOOL, broadcast_shapes(*map(shape_of, values)))]


@rule("Where")
def _where(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    condition, *branches = present(inputs)
    need(dtype_of(condition) == oir.DataType.BOOL, "the condition is not bool")
    shape = broadcast_shapes(shape_of(condition), *map(shape_of, branches))
    return [(_same_dtype(branches), shape)]


@rule("Clip")
def _clip(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    _same_dtype(present(inputs))
    return _like_first(inputs, attributes, n_outputs)


@rule("Cast")
def _cast(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    return [(oir.DataType(attributes["to"]), shape_of(operand(inputs, 0)))]


@rule("BitCast")
def _bit_cast(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x, target = operand(inputs, 0), oir.DataType(attributes["to"])
    need(dtype_of(x).bitwidth == target.bitwidth, "BitCast between types of different width")
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
