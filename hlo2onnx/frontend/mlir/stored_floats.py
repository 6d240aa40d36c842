"""Replaces floats of at most 8 bits that ONNX or the target lacks by the integers of their bits.

Values of such a type become ui8. Ops that move elements move these. Ops that compute do it in f32,
between calls of `DECODE` and `ENCODE`, and round once. Later stages do not know these types.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError
from hlo2onnx.frontend.mlir.constants import bits_of
from hlo2onnx.frontend.mlir.quantization import KEEPS_STORED, to_storage, with_element
from hlo2onnx.frontend.mlir.types import STORED_FLOATS, element_type, is_tensor
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    constant_operation,
    dense,
    made,
    made_call,
    operations_of,
    replace_uses_but,
    values_of,
)

DECODE = "hlo2onnx.decode_float"
ENCODE = "hlo2onnx.encode_float"

_WITH_REGION = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_reduce", "reduce", "reduce_scatter", "reduce_window", "scatter",
        "select_and_scatter", "sort",
    )
)  # fmt: skip
"""Ops whose regions compute on elements. The whole op computes in f32, and a sum rounds once."""

_MOVES = (
    KEEPS_STORED
    - _WITH_REGION
    - {"stablehlo.custom_call", "stablehlo.uniform_dequantize", "stablehlo.uniform_quantize"}
) | {"stablehlo.select"}
_MOVING_DIALECTS = ("sdy.", "shape.")

_READS_BITS = frozenset({"chlo.next_after", "chlo.broadcast_next_after"})
"""Ops that depend on the distance between neighbouring numbers."""


def store_floats(
    module_operation: ir.Operation, elements: Collection[str], types: Collection[ir.Type]
) -> None:
    """Replaces, in place, all values of these element types, which are in `STORED_FLOATS`.

    Args:
        types: Those of the module's values.

    Raises:
        LoadError: An op needs the neighbour of a number in such a type.
    """
    if not any(_is_stored(mlir_type, elements) for mlir_type in types):
        return
    within: set[ir.Operation] = set()
    for operation in operations_of(module_operation):
        values = (*operation.operands, *operation.results)
        if operation in within or not any(_stored(value, elements) for value in values):
            continue
        if operation.name in _READS_BITS:
            element = element_type(operation.operands[0].type)
            raise LoadError(
                f"{operation.name} of {element}: models compute this type in f32, whose numbers"
                " have other neighbours\n"
                "  next   convert the operands to another type before this op"
            )
        if operation.name == "stablehlo.bitcast_convert":
            _bitcast_by_width(operation, elements)
        elif operation.name not in _MOVES and not operation.name.startswith(_MOVING_DIALECTS):
            within.update(_wrap(operation, elements))
    to_storage(module_operation, lambda mlir_type: _storage_type(mlir_type, elements))


def _stored(value: MlirValue, elements: Collection[str]) -> str | None:
    """The element type of a value, if it is one of these."""
    if not is_tensor(value.type):
        return None
    element = element_type(value.type)
    return element if element in elements else None


def _is_stored(mlir_type: ir.Type, elements: Collection[str]) -> bool:
    return is_tensor(mlir_type) and element_type(mlir_type) in elements


def _storage_type(mlir_type: ir.Type, elements: Collection[str]) -> ir.Type:
    return with_element(mlir_type, "ui8") if _is_stored(mlir_type, elements) else mlir_type


# -- ops that compute ---------------------------------------------------------------------------


def _wrap(operation: ir.Operation, elements: Collection[str]) -> Sequence[ir.Operation]:
    """Makes an op compute in f32, between conversions. Returns the ops of its regions."""
    if operation.name == "stablehlo.convert" and not _stored(operation.operands[0], elements):
        _encode_operand(operation, elements)
        return ()
    for index, operand in enumerate(operation.operands):
        if element := _stored(operand, elements):
            operation.operands[index] = _call(DECODE, element, operand, "f32", operation)
    inner = _in_f32(operation, elements) if operation.name in _WITH_REGION else ()
    for result in operation.results:
        if element := _stored(result, elements):
            stored_type = result.type
            result.set_type(with_element(stored_type, "f32"))
            with ir.InsertionPoint.after(operation), operation.location:
                replace_uses_but(result, _conversion(ENCODE, element, result, stored_type))
    return inner


def _encode_operand(convert: ir.Operation, elements: Collection[str]) -> None:
    """Replaces a conversion to a stored type by one rounding."""
    result = convert.results[0]
    element = _stored(result, elements)
    assert element is not None
    with ir.InsertionPoint(convert), convert.location:
        encoded = _conversion(ENCODE, element, convert.operands[0], result.type)
    result.replace_all_uses_with(encoded)
    convert.erase()


def _in_f32(operation: ir.Operation, elements: Collection[str]) -> list[ir.Operation]:
    """Changes the values in an op's regions to f32. Returns the ops there."""
    inner = [item for item in operations_of(operation) if item != operation]
    own = set(values_of(operation)) - set(operation.results)
    for item in inner:
        for index, operand in enumerate(item.operands):
            element = _stored(operand, elements)
            if element and operand not in own:
                item.operands[index] = _call(DECODE, element, operand, "f32", operation)
    for value in own:
        if element := _stored(value, elements):
            wide = with_element(value.type, "f32")
            if constant := constant_operation(value):
                numbers = bits_of(constant).view(STORED_FLOATS[element])
                constant.attributes["value"] = dense(numbers.astype(np.float32), wide)
            value.set_type(wide)
    return inner


def _call(
    target: str, element: str, value: MlirValue, result: str, before: ir.Operation
) -> MlirValue:
    with ir.InsertionPoint(before), before.location:
        return _conversion(target, element, value, with_element(value.type, result))


def _conversion(target: str, element: str, value: MlirValue, result_type: ir.Type) -> MlirValue:
    return made_call(target, result_type, value, element=ir.StringAttr.get(element))


def _bitcast_by_width(operation: ir.Operation, elements: Collection[str]) -> None:
    """Replaces a 4-bit float by ui4 in a bitcast. The ui8 that stores it has 4 bits more."""
    operand, result = operation.operands[0], operation.results[0]
    if _stored(operand, elements) == "f4E2M1FN":
        with ir.InsertionPoint(operation), operation.location:
            operation.operands[0] = made("convert", with_element(operand.type, "ui4"), operand)
    if _stored(result, elements) == "f4E2M1FN":
        stored_type = result.type
        result.set_type(with_element(stored_type, "ui4"))
        with ir.InsertionPoint.after(operation), operation.location:
            replace_uses_but(result, made("convert", stored_type, result))
