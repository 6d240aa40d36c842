"""The guards of a program: ops that treat some values in another way.

Each guard has sides, such as an index below 0 and an index above its limit. A side comes with ops
that tell whether a run reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.types import element_type, is_complex, is_tensor, numpy_type, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, dense, made
from hlo2onnx.verify.element_kinds import is_integer
from hlo2onnx.verify.input_flow import Flow


@dataclass(frozen=True)
class Side:
    """One side of a guard.

    Attributes:
        what: Its name: "an index below 0".
        emit: Makes a tensor of i1 at the insertion point, true where the side is reached.
        is_counted: Whether it counts for the coverage.
    """

    what: str
    emit: Callable[[], MlirValue]
    is_counted: bool = True


def sides_of(operation: ir.Operation, flows: Sequence[Flow]) -> list[Side]:
    """The sides of an op, without those of branches.

    Args:
        flows: The flows of its operands. A side that depends on no input is not a guard.
    """
    of_indices = [
        side
        for indices in indices_of(operation)
        if flows[indices.operand].inputs
        for side in _of_indices(operation.operands[indices.operand], indices.limits, indices.axis)
    ]
    if of_indices:
        return of_indices
    values = [*operation.operands, *operation.results]
    if not all(is_tensor(x.type) and not is_complex(x.type) for x in values):
        return []
    if (of_flows := _OF_FLOWS.get(operation.name)) is not None:
        return of_flows(operation, flows)
    place, maker = _SIDES.get(operation.name, (0, None))
    return maker(operation) if maker is not None and flows[place].inputs else []


def _of_indices(value: MlirValue, limits: Sequence[int], axis: int | None) -> list[Side]:
    if not limits:
        return []
    shape, dtype = _array_type(value)
    most = int(ml_dtypes.iinfo(dtype).max)
    along = [1] * len(shape)
    if axis is not None:
        along[axis] = len(limits)
    bounds = np.broadcast_to(np.array(limits).clip(0, most).reshape(along or ()), shape)
    sides = []
    if dtype.kind != "u":
        sides.append(Side("an index below 0", lambda: compared("LT", value, 0)))
    sides.append(
        Side("an index above its limit", lambda: compared("GT", value, bounds.astype(dtype)))
    )
    return sides


def _of_clamp(operation: ir.Operation) -> list[Side]:
    low, x, high = operation.operands
    return [
        Side("a value below the range", lambda: _below(x, low)),
        Side("a value above the range", lambda: _below(high, x)),
    ]


def _below(x: MlirValue, y: MlirValue) -> MlirValue:
    """Whether x < y, where one of them may be a scalar."""
    if shape_of(x.type) != shape_of(y.type):
        if shape_of(x.type):
            y = broadcast(y, x.type)
        else:
            x = broadcast(x, y.type)
    return compared("LT", x, y)


def _of_bound(operation: ir.Operation, flows: Sequence[Flow]) -> list[Side]:
    """Maximum or minimum with a value that depends on no input."""
    for place in (0, 1):
        x, numbers = operation.operands[place], flows[1 - place].numbers
        if flows[place].inputs and not flows[1 - place].inputs and numbers:
            if _is_extreme(numbers, _array_type(x)[1]):
                return _nan_of(x)
            return [*_around(x, operation.operands[1 - place]), *_nan_of(x)]
    return []


def _around(x: MlirValue, bound: MlirValue) -> list[Side]:
    return [
        Side("a value below its constant", lambda: compared("LT", x, bound)),
        Side("a value above its constant", lambda: compared("GT", x, bound)),
    ]


def _is_extreme(numbers: Sequence[float], dtype: np.dtype) -> bool:
    """Whether all numbers are infinite, or the largest or smallest of the type."""
    if dtype.kind == "b":
        return True
    if is_integer(dtype):
        info = ml_dtypes.iinfo(dtype)
        return all(number in (info.min, info.max) for number in numbers)
    largest = float(ml_dtypes.finfo(dtype).max)
    return all(not abs(number) < largest for number in numbers)


def _of_select(operation: ir.Operation) -> list[Side]:
    predicate = operation.operands[0]
    return [
        Side("a true condition", lambda: predicate),
        Side("a false condition", lambda: made("not", predicate.type, predicate)),
    ]


def _of_division(operation: ir.Operation, flows: Sequence[Flow]) -> list[Side]:
    x, divisor = operation.operands
    _, dtype = _array_type(x)
    if not is_integer(dtype) or not flows[1].inputs:
        return []
    sides = [Side("divisor 0", lambda: compared("EQ", divisor, 0))]
    if dtype.kind == "i" and flows[0].inputs:
        lowest = int(ml_dtypes.iinfo(dtype).min)

        def overflow() -> MlirValue:
            least, minus = compared("EQ", x, lowest), compared("EQ", divisor, -1)
            return made("and", least.type, least, minus)

        sides.append(Side("the smallest integer by -1", overflow))
    return sides


def _of_abs(operation: ir.Operation) -> list[Side]:
    (x,) = operation.operands
    _, dtype = _array_type(x)
    if not is_integer(dtype):
        return []
    lowest = int(ml_dtypes.iinfo(dtype).min)
    return [Side("the smallest integer", lambda: compared("EQ", x, lowest))]


def _of_shift(operation: ir.Operation) -> list[Side]:
    amount = operation.operands[1]
    _, dtype = _array_type(amount)
    bits = ml_dtypes.iinfo(dtype).bits
    if bits > int(ml_dtypes.iinfo(dtype).max):
        return []
    return [Side("a shift of all bits", lambda: compared("GE", amount, bits))]


def _of_convert(operation: ir.Operation) -> list[Side]:
    (x,) = operation.operands
    (_, dtype), (_, to) = _array_type(x), _array_type(operation.results[0])
    if not is_integer(to) or dtype.kind == "b" or is_integer(dtype):
        return []
    info, largest = ml_dtypes.iinfo(to), float(ml_dtypes.finfo(dtype).max)
    sides = [Side(NAN, lambda: compared("NE", x, x))]
    if float(info.max) < largest:
        sides.append(Side("a float above the integers", lambda: compared("GT", x, float(info.max))))
    if -float(info.min) < largest:
        sides.append(Side("a float below the integers", lambda: compared("LT", x, float(info.min))))
    return sides


def _of_is_finite(operation: ir.Operation) -> list[Side]:
    (result,) = operation.results
    return [Side("a value that is not finite", lambda: made("not", result.type, result))]


def _of_window(operation: ir.Operation) -> list[Side]:
    return _nan_of(operation.operands[0]) if len(operation.operands) == 2 else []


def _nan_of(x: MlirValue) -> list[Side]:
    """NaN in a maximum or minimum. Kernels of runtimes, and some of XLA's, lose it."""
    dtype = _array_type(x)[1]
    if is_integer(dtype) or dtype.kind == "b":
        return []
    return [Side(NAN, lambda: compared("NE", x, x), is_counted=False)]


NAN = "NaN"
"""The side of a NaN."""

_OF_FLOWS: dict[str, Callable[[ir.Operation, Sequence[Flow]], list[Side]]] = {
    "stablehlo.divide": _of_division,
    "stablehlo.maximum": _of_bound,
    "stablehlo.minimum": _of_bound,
    "stablehlo.remainder": _of_division,
}
_SIDES: dict[str, tuple[int, Callable[[ir.Operation], list[Side]]]] = {
    "stablehlo.abs": (0, _of_abs),
    "stablehlo.clamp": (1, _of_clamp),
    "stablehlo.convert": (0, _of_convert),
    "stablehlo.is_finite": (0, _of_is_finite),
    "stablehlo.reduce_window": (0, _of_window),
    "stablehlo.select": (0, _of_select),
    "stablehlo.shift_left": (1, _of_shift),
    "stablehlo.shift_right_arithmetic": (1, _of_shift),
    "stablehlo.shift_right_logical": (1, _of_shift),
}
"""The sides of each op, and the place of the operand that must depend on inputs."""


# -- indices --------------------------------------------------------------------------------------


class Indices(NamedTuple):
    """An operand of indices.

    Attributes:
        operand: Its place among the operands.
        limits: The largest valid index of each component.
        axis: The axis of the components; None if the operand has one component.
    """

    operand: int
    limits: tuple[int, ...]
    axis: int | None


def indices_of(operation: ir.Operation) -> list[Indices]:
    """The operands of an op that are indices into another operand."""
    name = operation.name
    if name == "stablehlo.gather":
        return [_of_gather(operation)]
    if name == "stablehlo.scatter":
        return [_of_scatter(operation)]
    if name == "stablehlo.dynamic_slice":
        return _of_slices(operation, 1, shape_of(operation.results[0].type))
    if name == "stablehlo.dynamic_update_slice":
        return _of_slices(operation, 2, shape_of(operation.operands[1].type))
    return []


def _of_slices(operation: ir.Operation, first: int, sizes: tuple[int | None, ...]) -> list[Indices]:
    extents = shape_of(operation.operands[0].type)
    return [
        Indices(first + axis, ((extent or 0) - (size or 0),), None)
        for axis, (extent, size) in enumerate(zip(extents, sizes, strict=True))
    ]


def _of_gather(operation: ir.Operation) -> Indices:
    numbers = to_python(operation.attributes["dimension_numbers"])
    sizes = to_python(operation.attributes["slice_sizes"])
    extents = shape_of(operation.operands[0].type)
    limits = tuple((extents[dim] or 0) - sizes[dim] for dim in numbers.start_index_map)
    return Indices(1, limits, _component_axis(operation, 1, numbers.index_vector_dim))


def _of_scatter(operation: ir.Operation) -> Indices:
    numbers = to_python(operation.attributes["scatter_dimension_numbers"])
    count = (len(operation.operands) - 1) // 2
    extents = shape_of(operation.operands[0].type)
    updates = shape_of(operation.operands[count + 1].type)
    absent = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    window_dims = [dim for dim in range(len(extents)) if dim not in absent]
    pairs = zip(window_dims, numbers.update_window_dims, strict=True)
    windows = {dim: updates[place] or 0 for dim, place in pairs}
    limits = tuple(
        (extents[dim] or 0) - windows.get(dim, 1) for dim in numbers.scattered_dims_to_operand_dims
    )
    return Indices(count, limits, _component_axis(operation, count, numbers.index_vector_dim))


def _component_axis(operation: ir.Operation, operand: int, axis: int) -> int | None:
    return axis if axis < len(shape_of(operation.operands[operand].type)) else None


# -- ops ------------------------------------------------------------------------------------------


def compared(direction: str, x: MlirValue, y: MlirValue | np.ndarray | float) -> MlirValue:
    """The comparison of a tensor with one of the same shape, an array or a number."""
    shape, _ = _array_type(x)
    if isinstance(y, np.ndarray):
        y = constant(y, x.type)
    elif isinstance(y, int | float):
        y = filled(y, x.type)
    flags = ir.RankedTensorType.get(shape, ir.IntegerType.get_signless(1))
    kind = ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
    return made("compare", flags, x, y, comparison_direction=kind)


def constant(array: np.ndarray, mlir_type: ir.Type) -> MlirValue:
    """A `stablehlo.constant`."""
    return made("constant", mlir_type, value=dense(array, mlir_type))


def broadcast(scalar: MlirValue, mlir_type: ir.Type) -> MlirValue:
    """A scalar as a tensor of this type."""
    none = ir.DenseI64ArrayAttr.get([])
    return made("broadcast_in_dim", mlir_type, scalar, broadcast_dimensions=none)


def filled(number: float, mlir_type: ir.Type) -> MlirValue:
    """A tensor of one number."""
    scalar = _scalar_of(mlir_type)
    array = np.array(number).astype(numpy_type(element_type(scalar)))
    one = constant(array, scalar)
    return broadcast(one, mlir_type) if shape_of(mlir_type) else one


def reduced(name: str, value: MlirValue, start: float) -> MlirValue:
    """The elements joined by an op, as a scalar."""
    scalar = _scalar_of(value.type)
    reduction = ir.Operation.create(
        "stablehlo.reduce",
        [scalar],
        [value, filled(start, scalar)],
        {"dimensions": ir.DenseI64ArrayAttr.get(list(range(len(shape_of(value.type)))))},
        regions=1,
    )
    unknown = ir.Location.unknown()
    block = reduction.regions[0].blocks.append(scalar, scalar, arg_locs=[unknown, unknown])
    with ir.InsertionPoint(block):
        joined = made(name, scalar, *block.arguments)
        ir.Operation.create("stablehlo.return", operands=[joined])
    return reduction.result


def _scalar_of(mlir_type: ir.Type) -> ir.Type:
    return ir.RankedTensorType.get([], ir.RankedTensorType(mlir_type).element_type)


def _array_type(value: MlirValue) -> tuple[tuple[int, ...], np.dtype]:
    shape = tuple(dim or 0 for dim in shape_of(value.type))
    return shape, numpy_type(element_type(value.type))
