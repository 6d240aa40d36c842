"""Flattens results that are tuples. XLA's runtime does not take these."""

from __future__ import annotations

from jaxlib.mlir import ir

from hlo2onnx.mlir.functions import function_type, set_function_type
from hlo2onnx.mlir.types import is_token
from hlo2onnx.mlir.values import defining_operation
from hlo2onnx.mlir.walk import MlirValue, operations_in


def flatten_results(function: ir.Operation) -> list[int] | None:
    """Makes a function return the members of tuples instead of the tuples, in place.

    Returns:
        Places of the results that are tensors; None if no result is a tuple, and nothing changes.
    """
    (block,) = function.regions[0].blocks
    end = operations_in(block)[-1]
    if not any(isinstance(value.type, ir.TupleType) for value in end.operands):
        return None
    with function.context, end.location, ir.InsertionPoint(end):
        values = [member for value in end.operands for member in _members(value)]
        ir.Operation.create(end.name, operands=values)
    types = [value.type for value in values]
    set_function_type(function, function_type(function).inputs, types)
    end.erase()
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]
    return [place for place, mlir_type in enumerate(types) if not is_token(mlir_type)]


def _members(value: MlirValue) -> list[MlirValue]:
    """The tensors and tokens in a value, at any depth."""
    if not isinstance(value.type, ir.TupleType):
        return [value]
    maker = defining_operation(value)
    if maker is not None and maker.name == "stablehlo.tuple":
        parts = list(maker.operands)
    else:
        mlir_type = ir.TupleType(value.type)
        parts = [_member(value, mlir_type, index) for index in range(mlir_type.num_types)]
    return [member for part in parts for member in _members(part)]


def _member(value: MlirValue, mlir_type: ir.TupleType, index: int) -> MlirValue:
    place = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), index)
    made = ir.Operation.create(
        "stablehlo.get_tuple_element", [mlir_type.get_type(index)], [value], {"index": place}
    )
    return made.result
