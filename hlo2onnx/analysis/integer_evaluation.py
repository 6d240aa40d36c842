"""Running elementwise integer functions of a program on numbers, to tell what they compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.types import ELEMENT_TYPES, element_type, is_tensor, shape_of

_LONGEST = 1 << 8
"""Loops of more trips than this are not run."""

_TERMINATORS = frozenset({"func.return", "stablehlo.return"})

_ELEMENTWISE: Mapping[str, Callable[..., np.ndarray]] = {
    "stablehlo.add": np.add,
    "stablehlo.and": np.bitwise_and,
    "stablehlo.multiply": np.multiply,
    "stablehlo.or": np.bitwise_or,
    "stablehlo.subtract": np.subtract,
    "stablehlo.xor": np.bitwise_xor,
}
_SHIFTS: Mapping[str, Callable[..., np.ndarray]] = {
    "stablehlo.shift_left": np.left_shift,
    "stablehlo.shift_right_logical": np.right_shift,
}
_COMPARE: Mapping[str, Callable[..., np.ndarray]] = {
    "EQ": np.equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
    "NE": np.not_equal,
}


class _Unknown(Exception):  # noqa: N818  (a verdict, not an error)
    """The function does something that is not run here."""


Lanes = np.ndarray | None
"""Lanes × elements: one lane where all agree, and one element where a tensor is elementwise in the
arguments or all its elements are equal. None is what only extents may come from."""


def evaluate(
    function: Any, functions: Mapping[str, Any], arguments: Sequence[np.ndarray | None]
) -> list[np.ndarray] | None:
    """What a function returns; None if it is not a plain elementwise one.

    A vector stands for a tensor of any shape, element by element, so that the numbers to run it
    on are as few as one likes. Only ops are known for which that makes no difference: arithmetic
    and bits, broadcasting, loops with a counter, calls, and tables of constants.

    Args:
        function: A func.func operation with a body.
        functions: The module's functions by symbol.
        arguments: A vector for each argument; None for one that extents are computed from, which
            nothing else may be.
    """
    lanes = [None if argument is None else argument[:, None] for argument in arguments]
    try:
        with np.errstate(all="ignore"):
            results = _block(function.regions[0].blocks[0], lanes, {}, functions)
    except _Unknown:
        return None
    count = max(len(argument) for argument in arguments if argument is not None)
    vectors = []
    for result in results:
        if result is None or result.shape[1] != 1:
            return None
        vectors.append(np.broadcast_to(result, (count, 1))[:, 0])
    return vectors


def _block(
    block: Any,
    arguments: Sequence[Lanes],
    outer: Mapping[Any, Lanes],
    functions: Mapping[str, Any],
) -> list[Lanes]:
    values = {**outer, **dict(zip(block.arguments, arguments, strict=True))}
    for operation in block.operations:
        operation = operation.operation
        operands = [values[operand] for operand in operation.operands]
        if operation.name in _TERMINATORS:
            return operands
        values.update(
            zip(operation.results, _apply(operation, operands, values, functions), strict=True)
        )
    raise _Unknown


def _apply(
    operation: Any,
    operands: list[Lanes],
    values: Mapping[Any, Lanes],
    functions: Mapping[str, Any],
) -> list[Lanes]:
    if operation.name == "func.call":
        callee = functions.get(str(to_python(operation.attributes["callee"])))
        if callee is None or not callee.regions[0].blocks:
            raise _Unknown
        return _block(callee.regions[0].blocks[0], operands, {}, functions)
    if operation.name == "stablehlo.while":
        return _loop(operation, operands, values, functions)
    if len(operation.results) != 1 or not is_tensor(operation.results[0].type):
        raise _Unknown
    if operation.name == "stablehlo.dynamic_broadcast_in_dim":
        operands = operands[:1]
    known = [operand for operand in operands if operand is not None]
    return [_value(operation, known) if len(known) == len(operands) else None]


def _loop(
    operation: Any,
    state: list[Lanes],
    values: Mapping[Any, Lanes],
    functions: Mapping[str, Any],
) -> list[Lanes]:
    condition, body = (region.blocks[0] for region in operation.regions)
    for _ in range(_LONGEST):
        (going,) = _block(condition, state, values, functions)
        if going is None or going.size != 1:
            raise _Unknown
        if not going.item():
            return state
        state = _block(body, state, values, functions)
    raise _Unknown


def _value(operation: Any, operands: list[np.ndarray]) -> np.ndarray:
    name, dtype = operation.name, _dtype(operation.results[0].type)
    if name == "stablehlo.constant":
        return _constant(operation, dtype)
    if any(operand.shape[1] != 1 for operand in operands):
        return _of_table(operation, operands[0])
    if name in ("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim"):
        return _broadcast(operation, operands[0])
    if name == "stablehlo.reshape" and not shape_of(operation.results[0].type):
        return operands[0]
    if name in _ELEMENTWISE and dtype.kind in "iu":
        return _ELEMENTWISE[name](*operands)
    if name in _SHIFTS and dtype.kind == "u":
        x, amount = operands
        inside = amount < 8 * dtype.itemsize
        return np.where(inside, _SHIFTS[name](x, np.where(inside, amount, 0)), 0).astype(dtype)
    if name == "stablehlo.convert" and dtype.kind in "iu" and operands[0].dtype.kind in "iu":
        return operands[0].astype(dtype)
    if name == "stablehlo.compare":
        direction = str(to_python(operation.attributes["comparison_direction"]))
        return _COMPARE[direction](*operands)
    raise _Unknown


def _constant(operation: Any, dtype: np.dtype[Any]) -> np.ndarray:
    content = np.array(to_python(operation.attributes["value"]))
    if dtype.kind not in "biu" or not content.size:
        raise _Unknown
    if (content == content.flat[0]).all():
        content = content.reshape(-1)[:1]
    if content.ndim > 1:
        raise _Unknown
    return content.astype(dtype).reshape(1, -1)


def _of_table(operation: Any, table: np.ndarray) -> np.ndarray:
    """A slice of a vector of constants."""
    if operation.name != "stablehlo.slice":
        raise _Unknown
    (start,), (limit,), (stride,) = (
        to_python(operation.attributes[key])
        for key in ("start_indices", "limit_indices", "strides")
    )
    return table[:, start:limit:stride]


def _broadcast(operation: Any, x: np.ndarray) -> np.ndarray:
    """The same elements, along axes of extent 1 or from a scalar."""
    dims = to_python(operation.attributes["broadcast_dimensions"])
    if tuple(dims) not in ((), tuple(range(len(shape_of(operation.results[0].type))))):
        raise _Unknown
    return x


def _dtype(mlir_type: Any) -> np.dtype[Any]:
    element = element_type(mlir_type)
    if element not in ELEMENT_TYPES:
        raise _Unknown
    return ELEMENT_TYPES[element].numpy()
