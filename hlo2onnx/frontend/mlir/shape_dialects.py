"""Rewrites sizes that torch-mlir and old exporters of MHLO compute outside of StableHLO.

Scalars in the dialects arith, tensor and shape become tensors of rank 0, and `index` becomes i64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.values import MlirValue, defining_operation, made, operations_of

Make: TypeAlias = Callable[[ir.Operation, Sequence[MlirValue]], MlirValue | None]

_DIALECTS = ("arith.", "tensor.", "shape.")


def has_shape_dialects(module_operation: ir.Operation) -> bool:
    """Whether a module computes sizes outside of StableHLO."""
    return any(item.name.startswith(_DIALECTS) for item in operations_of(module_operation))


def shapes_in_stablehlo(module_operation: ir.Operation) -> None:
    """Rewrites the known ops of these dialects in place. Other ops and their operands stay."""
    results: dict[MlirValue, MlirValue] = {}
    replaced: list[ir.Operation] = []
    for operation in operations_of(module_operation):
        make = _MAKERS.get(operation.name)
        operands = [results.get(operand, operand) for operand in operation.operands]
        if make is None or not all(isinstance(x.type, ir.RankedTensorType) for x in operands):
            continue
        with operation.context, operation.location, ir.InsertionPoint(operation):
            value = make(operation, operands)
        if value is not None:
            results[operation.results[0]] = value
            replaced.append(operation)
    for operation in reversed(replaced):
        (old,) = operation.results
        readers = {use.owner.operation.name for use in old.uses}
        # Other readers, such as a return, need the old type.
        if old.type == results[old].type or all(name.startswith("stablehlo.") for name in readers):
            old.replace_all_uses_with(results[old])
            operation.erase()


def _tensor(element: ir.Type, dims: Sequence[int] = ()) -> ir.RankedTensorType:
    index = ir.IndexType.get()
    element = ir.IntegerType.get_signless(64) if element == index else element
    return ir.RankedTensorType.get(list(dims), element)


def _element_type(x: MlirValue) -> ir.Type:
    return ir.RankedTensorType(x.type).element_type


def _constant(operation: ir.Operation, operands: Sequence[MlirValue]) -> MlirValue | None:
    value = operation.attributes["value"]
    if not isinstance(value, ir.IntegerAttr) or value.type == ir.IntegerType.get_signless(1):
        return None
    mlir_type = _tensor(value.type)
    number = ir.IntegerAttr.get(mlir_type.element_type, value.value)
    return made("constant", mlir_type, value=ir.DenseElementsAttr.get_splat(mlir_type, number))


def _cast(operation: ir.Operation, operands: Sequence[MlirValue]) -> MlirValue | None:
    result = operation.results[0].type
    (x,) = operands
    if isinstance(result, ir.RankedTensorType):
        target = _tensor(result.element_type, result.shape)
    else:
        target = _tensor(result)
    one_bit = ir.IntegerType.get_signless(1)
    if one_bit in (_element_type(x), target.element_type):
        return None  # true is -1 here, and the lowest bit counts
    return made("convert", target, x)


def _elementwise(name: str) -> Make:
    def make(operation: ir.Operation, operands: Sequence[MlirValue]) -> MlirValue | None:
        if _element_type(operands[0]) == ir.IntegerType.get_signless(1):
            return None  # arith has numbers of one bit, StableHLO booleans
        return made(name, operands[0].type, *operands)

    return make


def _dim(operation: ir.Operation, operands: Sequence[MlirValue]) -> MlirValue | None:
    """tensor.dim x, axis; the axis must be a constant."""
    axis = _number(operation.operands[1])
    return None if axis is None else _size(operands[0], axis)


def _size(x: MlirValue, axis: int) -> MlirValue:
    small = _tensor(ir.IntegerType.get_signless(32))
    place = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)
    size = made("get_dimension_size", small, x, dimension=place)
    return made("convert", _tensor(ir.IndexType.get()), size)


def _vector(scalars: Sequence[MlirValue]) -> MlirValue:
    element = _element_type(scalars[0])
    rows = [made("reshape", _tensor(element, [1]), scalar) for scalar in scalars]
    axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    return made("concatenate", _tensor(element, [len(rows)]), *rows, dimension=axis)


def _from_elements(operation: ir.Operation, operands: Sequence[MlirValue]) -> MlirValue | None:
    if not operands or ir.RankedTensorType(operation.results[0].type).rank != 1:
        return None
    return _vector(operands)


def _shape_of(operation: ir.Operation, operands: Sequence[MlirValue]) -> MlirValue | None:
    (x,) = operands
    rank = ir.RankedTensorType(x.type).rank
    return _vector([_size(x, axis) for axis in range(rank)]) if rank else None


def _extract(operation: ir.Operation, operands: Sequence[MlirValue]) -> MlirValue | None:
    """tensor.extract x[place]; the place must be a constant."""
    x, *places = operands
    place = _number(operation.operands[1]) if len(places) == 1 else None
    return None if place is None else _element(x, place)


def _element(x: MlirValue, place: int) -> MlirValue:
    element = _element_type(x)
    bounds = zip(("start_indices", "limit_indices", "strides"), (place, place + 1, 1), strict=True)
    attributes = {name: ir.DenseI64ArrayAttr.get([number]) for name, number in bounds}
    row = made("slice", _tensor(element, [1]), x, **attributes)
    return made("reshape", _tensor(element), row)


def _num_elements(operation: ir.Operation, operands: Sequence[MlirValue]) -> MlirValue | None:
    (shape,) = operands
    dims = ir.RankedTensorType(shape.type).shape
    if len(dims) != 1 or dims[0] < 1:
        return None
    product = _element(shape, 0)
    for place in range(1, dims[0]):
        product = made("multiply", product.type, product, _element(shape, place))
    return product


def _broadcast(operation: ir.Operation, operands: Sequence[MlirValue]) -> MlirValue | None:
    """shape.broadcast x, y of equal rank: where(x == 1, y, x)."""
    if len(operands) != 2 or operands[0].type != operands[1].type:
        return None
    x, y = operands
    number = ir.IntegerAttr.get(_element_type(x), 1)
    one = made("constant", x.type, value=ir.DenseElementsAttr.get_splat(x.type, number))
    flags = _tensor(ir.IntegerType.get_signless(1), ir.RankedTensorType(x.type).shape)
    direction = ir.Attribute.parse("#stablehlo<comparison_direction EQ>")
    is_one = made("compare", flags, x, one, comparison_direction=direction)
    return made("select", x.type, is_one, y, x)


def _number(value: MlirValue) -> int | None:
    maker = defining_operation(value)
    if maker is None or maker.name != "arith.constant":
        return None
    number = maker.attributes["value"]
    return int(number.value) if isinstance(number, ir.IntegerAttr) else None


_MAKERS: Mapping[str, Make] = {
    "arith.addi": _elementwise("add"),
    "arith.constant": _constant,
    "arith.divsi": _elementwise("divide"),
    "arith.extsi": _cast,
    "arith.index_cast": _cast,
    "arith.maxsi": _elementwise("maximum"),
    "arith.minsi": _elementwise("minimum"),
    "arith.muli": _elementwise("multiply"),
    "arith.remsi": _elementwise("remainder"),
    "arith.subi": _elementwise("subtract"),
    "arith.trunci": _cast,
    "shape.broadcast": _broadcast,
    "shape.num_elements": _num_elements,
    "shape.shape_of": _shape_of,
    "tensor.dim": _dim,
    "tensor.extract": _extract,
    "tensor.from_elements": _from_elements,
}
"""Functions that make the result of an op; None if they cannot rewrite it."""
