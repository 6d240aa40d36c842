"""The guards of a program: ops that treat some values in another way.

Each guard has sides, such as an index below 0 and an index above its limit. A side comes with ops
that tell whether a run reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.types import element_type, is_complex, is_tensor, numpy_type, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, dense, made
from hlo2onnx.verify.element_kinds import is_integer
from hlo2onnx.verify.index_limits import indices_of
from hlo2onnx.verify.input_flow import Flow


@dataclass(frozen=True)
class Side:
    """One side of a guard.

    Attributes:
        what: Its name: "index below 0".
        emit: Makes a tensor of i1 at the insertion point, true where the side is reached.
        is_counted: Whether it counts for the coverage.
    """

    what: str
    emit: Callable[[], MlirValue]
    is_counted: bool = True


def sides_of(operation: ir.Operation, flows: Sequence[Flow]) -> list[Side]:
    """The sides of an op, without those of branches.

    Args:
        flows: The flows of its operands. A side that depends on no input is no guard.
    """
    of_indices = [
        side
        for indices in indices_of(operation)
        if flows[indices.operand].inputs
        for side in _of_indices(operation.operands[indices.operand], indices.limits, indices.axis)
    ]
    if of_indices:
        return of_indices
    maker = _SIDES.get(operation.name)
    values = [*operation.operands, *operation.results]
    if maker is None or not all(is_tensor(x.type) and not is_complex(x.type) for x in values):
        return []
    return maker(operation, flows)


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
        sides.append(Side("index below 0", lambda: compared("LT", value, 0)))
    sides.append(Side("index above its limit", lambda: compared("GT", value, bounds.astype(dtype))))
    return sides


def _of_clamp(operation: ir.Operation, flows: Sequence[Flow]) -> list[Side]:
    low, x, high = operation.operands
    if not flows[1].inputs:
        return []
    return [
        Side("below the range", lambda: _below(x, low)),
        Side("above the range", lambda: _below(high, x)),
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
        Side("below the bound", lambda: compared("LT", x, bound)),
        Side("above the bound", lambda: compared("GT", x, bound)),
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


def _of_select(operation: ir.Operation, flows: Sequence[Flow]) -> list[Side]:
    if not flows[0].inputs:
        return []
    predicate = operation.operands[0]
    return [
        Side("true", lambda: predicate),
        Side("false", lambda: made("not", predicate.type, predicate)),
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


def _of_abs(operation: ir.Operation, flows: Sequence[Flow]) -> list[Side]:
    (x,) = operation.operands
    _, dtype = _array_type(x)
    if not is_integer(dtype) or not flows[0].inputs:
        return []
    lowest = int(ml_dtypes.iinfo(dtype).min)
    return [Side("the smallest integer", lambda: compared("EQ", x, lowest))]


def _of_shift(operation: ir.Operation, flows: Sequence[Flow]) -> list[Side]:
    amount = operation.operands[1]
    _, dtype = _array_type(amount)
    if not flows[1].inputs:
        return []
    bits = ml_dtypes.iinfo(dtype).bits
    if bits > int(ml_dtypes.iinfo(dtype).max):
        return []
    return [Side("shift of all bits", lambda: compared("GE", amount, bits))]


def _of_convert(operation: ir.Operation, flows: Sequence[Flow]) -> list[Side]:
    (x,) = operation.operands
    (_, dtype), (_, to) = _array_type(x), _array_type(operation.results[0])
    if not flows[0].inputs or not is_integer(to) or dtype.kind == "b" or is_integer(dtype):
        return []
    info, largest = ml_dtypes.iinfo(to), float(ml_dtypes.finfo(dtype).max)
    sides = [Side(NAN, lambda: compared("NE", x, x))]
    if float(info.max) < largest:
        sides.append(Side("above the integers", lambda: compared("GT", x, float(info.max))))
    if -float(info.min) < largest:
        sides.append(Side("below the integers", lambda: compared("LT", x, float(info.min))))
    return sides


def _of_is_finite(operation: ir.Operation, flows: Sequence[Flow]) -> list[Side]:
    (result,) = operation.results
    if not flows[0].inputs:
        return []
    return [Side("not finite", lambda: made("not", result.type, result))]


def _of_window(operation: ir.Operation, flows: Sequence[Flow]) -> list[Side]:
    if len(operation.operands) != 2 or not flows[0].inputs:
        return []
    return _nan_of(operation.operands[0])


def _nan_of(x: MlirValue) -> list[Side]:
    """NaN in a maximum or minimum. Kernels of runtimes, and some of XLA's, lose it."""
    dtype = _array_type(x)[1]
    if is_integer(dtype) or dtype.kind == "b":
        return []
    return [Side(NAN, lambda: compared("NE", x, x), is_counted=False)]


NAN = "NaN"
"""The side of a NaN."""

_SIDES: dict[str, Callable[[ir.Operation, Sequence[Flow]], list[Side]]] = {
    "stablehlo.abs": _of_abs,
    "stablehlo.clamp": _of_clamp,
    "stablehlo.convert": _of_convert,
    "stablehlo.divide": _of_division,
    "stablehlo.is_finite": _of_is_finite,
    "stablehlo.maximum": _of_bound,
    "stablehlo.minimum": _of_bound,
    "stablehlo.reduce_window": _of_window,
    "stablehlo.remainder": _of_division,
    "stablehlo.select": _of_select,
    "stablehlo.shift_left": _of_shift,
    "stablehlo.shift_right_arithmetic": _of_shift,
    "stablehlo.shift_right_logical": _of_shift,
}


# -- ops ------------------------------------------------------------------------------------------


def compared(direction: str, x: MlirValue, y: MlirValue | np.ndarray | float) -> MlirValue:
    """The comparison of a tensor with one of the same shape, an array or a number."""
    shape, dtype = _array_type(x)
    if isinstance(y, np.ndarray):
        y = constant(y, x.type)
    elif isinstance(y, int | float):
        scalar = ir.RankedTensorType.get([], ir.RankedTensorType(x.type).element_type)
        y = broadcast(constant(np.array(y).astype(dtype), scalar), x.type)
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


def _array_type(value: MlirValue) -> tuple[tuple[int, ...], np.dtype]:
    shape = tuple(dim or 0 for dim in shape_of(value.type))
    return shape, numpy_type(element_type(value.type))
