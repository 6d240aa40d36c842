"""Results that are tuples, which XLA's runtime does not take."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.mlir.types import is_token
from hlo2onnx.mlir.values import defining_operation


def flatten_results(function: Any) -> list[int] | None:
    """Makes a function return the members of tuples, in place of the tuples.

    Returns:
        Places of the results that are tensors; None where no result is a tuple, and the function
        stays as it is.
    """
    (block,) = function.regions[0].blocks
    end = [operation.operation for operation in block.operations][-1]
    if not any(isinstance(value.type, ir.TupleType) for value in end.operands):
        return None
    with function.context, end.location, ir.InsertionPoint(end):
        values = [member for value in end.operands for member in _members(value)]
        ir.Operation.create(end.name, operands=values)
        inputs = function.attributes["function_type"].value.inputs
        types = [value.type for value in values]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, types))
    end.erase()
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]
    return [place for place, mlir_type in enumerate(types) if not is_token(mlir_type)]


def _members(value: Any) -> list[Any]:
    """The tensors and tokens in a value, however deep."""
    if not isinstance(value.type, ir.TupleType):
        return [value]
    maker = defining_operation(value)
    if maker is not None and maker.name == "stablehlo.tuple":
        parts = list(maker.operands)
    else:
        mlir_type = ir.TupleType(value.type)
        parts = [_member(value, mlir_type, index) for index in range(mlir_type.num_types)]
    return [member for part in parts for member in _members(part)]


def _member(value: Any, mlir_type: Any, index: int) -> Any:
    place = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), index)
    made = ir.Operation.create(
        "stablehlo.get_tuple_element", [mlir_type.get_type(index)], [value], {"index": place}
    )
    return made.results[0]
