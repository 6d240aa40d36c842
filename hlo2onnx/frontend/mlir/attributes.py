"""MLIR attributes as plain Python values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

_DENSE_ARRAYS = (
    ir.DenseBoolArrayAttr,
    ir.DenseI8ArrayAttr,
    ir.DenseI16ArrayAttr,
    ir.DenseI32ArrayAttr,
    ir.DenseI64ArrayAttr,
    ir.DenseF32ArrayAttr,
    ir.DenseF64ArrayAttr,
)
_DIALECT_RECORDS = {
    "conv": stablehlo.ConvDimensionNumbers,
    "dot": stablehlo.DotDimensionNumbers,
    "gather": stablehlo.GatherDimensionNumbers,
    "scatter": stablehlo.ScatterDimensionNumbers,
    "dot_algorithm": stablehlo.DotAlgorithm,
}
_ENUM = re.compile(r"#(?:stablehlo|chlo|mhlo)<(\w+) (\w+)>")
_RECORD = re.compile(r"#(?:stablehlo|chlo|mhlo)\.(\w+)<")


def to_python(attribute: ir.Attribute) -> Any:
    """The Python value of an attribute.

    Integers, floats, booleans and strings become themselves (bytes that are not UTF-8 are
    escaped). Arrays become tuples, dense elements numpy arrays of the same shape, dictionaries
    dicts. Enums of StableHLO and CHLO become their names ("LT", "THREE_FRY"), dimension numbers the
    record of the bindings, symbol references their text, types an `ir.Type`. Other attributes are
    returned unchanged.
    """
    read = _READERS.get(type(attribute))
    if read is not None:
        return read(attribute)
    return (
        np.array(attribute)
        if isinstance(attribute, ir.DenseElementsAttr)
        else _dialect_value(attribute)
    )


def _value(attribute: Any) -> Any:
    return attribute.value


_READERS: Mapping[type, Callable[[Any], Any]] = {
    **dict.fromkeys(
        (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.FlatSymbolRefAttr, ir.TypeAttr), _value
    ),
    **dict.fromkeys(_DENSE_ARRAYS, tuple),
    ir.StringAttr: lambda text: text.value_bytes.decode(errors="backslashreplace"),
    ir.ArrayAttr: lambda items: tuple(map(to_python, items)),
    ir.DictAttr: lambda entries: {name: to_python(entries[name]) for name in keys_of(entries)},
    ir.UnitAttr: lambda _: True,
}
"""What reads an attribute, by its class. Those of dense elements have several."""


def text_of(operation: ir.Operation, name: str) -> str:
    """The text of an attribute that is a string or the symbol of a function."""
    return str(to_python(operation.attributes[name]))


def keys_of(attributes: ir.DictAttr | ir.OpAttributeMap) -> list[str]:
    """The names of attributes."""
    return [attributes[index].name for index in range(len(attributes))]


def _dialect_value(attribute: ir.Attribute) -> Any:
    text = str(attribute)
    if enum := _ENUM.fullmatch(text):
        return enum.group(2)
    if record := _RECORD.match(text):
        reader = _DIALECT_RECORDS.get(record.group(1))
        if reader is not None:
            return reader(attribute)
    return attribute
