"""Sizes computed outside of StableHLO, as torch-mlir and exporters of MHLO's time write them.

Scalars of `index` and integers, in the dialects arith, tensor and shape, become tensors of no axes;
`index` becomes i64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.mlir.values import defining_operation
from hlo2onnx.mlir.walk import operations_of

_DIALECTS = ("arith.", "tensor.", "shape.")


def has_shape_dialects(module: Any) -> bool:
    """Whether a module computes sizes outside of StableHLO."""
    return any(item.name.startswith(_DIALECTS) for item in operations_of(module.operation))


def shapes_in_stablehlo(module_operation: Any) -> None:
    """Rewrites, in place, those ops of these dialects that are known; the others stay as they are,
    with all that they need."""
    made: dict[Any, Any] = {}
    replaced: list[Any] = []
    for operation in operations_of(module_operation):
        make = _MAKERS.get(operation.name)
        operands = [made.get(operand, operand) for operand in operation.operands]
        if make is None or not all(isinstance(x.type, ir.RankedTensorType) for x in operands):
            continue
        with operation.context, operation.location, ir.InsertionPoint(operation):
            value = make(operation, operands)
        if value is not None:
            made[operation.results[0]] = value
            replaced.append(operation)
    for operation in reversed(replaced):
        (old,) = operation.results
        readers = {use.owner.operation.name for use in old.uses}
        # What else reads it, a return for one, says itself of what type it is.
        if old.type == made[old].type or all(name.startswith("stablehlo.") for name in readers):
            old.replace_all_uses_with(made[old])
            operation.erase()


def _tensor(element: Any, dims: Sequence[int] = ()) -> Any:
    index = ir.IndexType.get()
    element = ir.IntegerType.get_signless(64) if element == index else element
    return ir.RankedTensorType.get(list(dims), element)


def _op(name: str, result: Any, operands: Sequence[Any], **attributes: Any) -> Any:
    return ir.Operation.create(f"stablehlo.{name}", [result], list(operands), attributes).results[0]


def _constant(operation: Any, operands: Sequence[Any]) -> Any | None:
    value = operation.attributes["value"]
    if not isinstance(value, ir.IntegerAttr) or value.type == ir.IntegerType.get_signless(1):
        return None
    mlir_type = _tensor(value.type)
    number = ir.IntegerAttr.get(mlir_type.element_type, value.value)
    return _op("constant", mlir_type, (), value=ir.DenseElementsAttr.get_splat(mlir_type, number))


def _cast(operation: Any, operands: Sequence[Any]) -> Any | None:
    result = operation.results[0].type
    (x,) = operands
    if isinstance(result, ir.RankedTensorType):
        target = _tensor(result.element_type, result.shape)
    else:
        target = _tensor(result)
    one_bit = ir.IntegerType.get_signless(1)
    if one_bit in (x.type.element_type, target.element_type):
        return None  # true is -1 here, and the lowest bit counts
    return _op("convert", target, [x])


def _elementwise(name: str) -> Callable[[Any, Sequence[Any]], Any | None]:
    def make(operation: Any, operands: Sequence[Any]) -> Any | None:
        mlir_type = operands[0].type
        if mlir_type.element_type == ir.IntegerType.get_signless(1):
            return None  # numbers of one bit here, truth values there
        return _op(name, mlir_type, operands)

    return make


def _dim(operation: Any, operands: Sequence[Any]) -> Any | None:
    """tensor.dim x, axis; the axis must be a constant."""
    axis = _number(operation.operands[1])
    return None if axis is None else _size(operands[0], axis)


def _size(x: Any, axis: int) -> Any:
    small = _tensor(ir.IntegerType.get_signless(32))
    place = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)
    size = _op("get_dimension_size", small, [x], dimension=place)
    return _op("convert", _tensor(ir.IndexType.get()), [size])


def _vector(scalars: Sequence[Any]) -> Any:
    element = scalars[0].type.element_type
    rows = [_op("reshape", _tensor(element, [1]), [scalar]) for scalar in scalars]
    axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    return _op("concatenate", _tensor(element, [len(rows)]), rows, dimension=axis)


def _from_elements(operation: Any, operands: Sequence[Any]) -> Any | None:
    if not operands or ir.RankedTensorType(operation.results[0].type).rank != 1:
        return None
    return _vector(operands)


def _shape_of(operation: Any, operands: Sequence[Any]) -> Any | None:
    (x,) = operands
    rank = ir.RankedTensorType(x.type).rank
    return _vector([_size(x, axis) for axis in range(rank)]) if rank else None


def _extract(operation: Any, operands: Sequence[Any]) -> Any | None:
    """tensor.extract x[place]; the place must be a constant."""
    x, *places = operands
    place = _number(operation.operands[1]) if len(places) == 1 else None
    return None if place is None else _element(x, place)


def _element(x: Any, place: int) -> Any:
    element = x.type.element_type
    bounds = zip(("start_indices", "limit_indices", "strides"), (place, place + 1, 1), strict=True)
    attributes = {name: ir.DenseI64ArrayAttr.get([number]) for name, number in bounds}
    row = _op("slice", _tensor(element, [1]), [x], **attributes)
    return _op("reshape", _tensor(element), [row])


def _num_elements(operation: Any, operands: Sequence[Any]) -> Any | None:
    (shape,) = operands
    dims = ir.RankedTensorType(shape.type).shape
    if len(dims) != 1 or dims[0] < 1:
        return None
    product = _element(shape, 0)
    for place in range(1, dims[0]):
        product = _op("multiply", product.type, [product, _element(shape, place)])
    return product


def _broadcast(operation: Any, operands: Sequence[Any]) -> Any | None:
    """shape.broadcast x, y of equal rank: where(x == 1, y, x)."""
    if len(operands) != 2 or operands[0].type != operands[1].type:
        return None
    x, y = operands
    number = ir.IntegerAttr.get(x.type.element_type, 1)
    one = _op("constant", x.type, (), value=ir.DenseElementsAttr.get_splat(x.type, number))
    flags = _tensor(ir.IntegerType.get_signless(1), x.type.shape)
    direction = ir.Attribute.parse("#stablehlo<comparison_direction EQ>")
    is_one = _op("compare", flags, [x, one], comparison_direction=direction)
    return _op("select", x.type, [is_one, y, x])


def _number(value: Any) -> int | None:
    maker = defining_operation(value)
    if maker is None or maker.name != "arith.constant":
        return None
    number = maker.attributes["value"]
    return int(number.value) if isinstance(number, ir.IntegerAttr) else None


_MAKERS: Mapping[str, Callable[[Any, Sequence[Any]], Any | None]] = {
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
"""What makes the result of an op, or None where it is not one that can be rewritten."""
