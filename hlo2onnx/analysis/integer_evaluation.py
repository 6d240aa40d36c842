"""Evaluation of elementwise integer functions on numbers, to tell what they compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.analysis.block_evaluator import COMPARE, BlockEvaluator, name_of, number
from hlo2onnx.ir.values import complete
from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.types import ELEMENT_TYPES, element_type, is_tensor, shape_of
from hlo2onnx.mlir.values import MlirValue

_LONGEST = 1 << 8
"""Loops of more trips than this are not run."""

_BROADCASTS = ("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
_WITHOUT_BRANCH = frozenset(
    {"add", "and", "convert", "multiply", "or", "shift_left", "shift_right_logical", "subtract",
     "xor"}
)  # fmt: skip
"""Ops whose every result says something about all inputs: no selection, no maximum."""


class _Unknown(Exception):  # noqa: N818  (a verdict, not an error)
    """The function contains an op that is not evaluated here."""


Lanes = np.ndarray | None
"""Lanes × elements: one lane where all agree, and one element where a tensor is elementwise in the
arguments or all its elements are equal. Only extents may come from None."""


def evaluate(
    function: ir.Operation,
    functions: Mapping[str, ir.Operation],
    arguments: Sequence[np.ndarray | None],
) -> list[np.ndarray] | None:
    """The results of a function; None if it is not a plain elementwise one.

    A vector stands for a tensor of any shape, element by element, so that a few numbers suffice to
    run it. It knows only ops for which that makes no difference: arithmetic and bits, broadcasting,
    loops with a counter, calls, and tables of constants.

    Args:
        function: A func.func operation with a body.
        functions: The module's functions by symbol.
        arguments: A vector for each argument; None for one that only extents are computed from.
    """
    lanes = [None if argument is None else argument[:, None] for argument in arguments]
    try:
        results = _Evaluator(functions).block(function.regions[0].blocks[0], lanes)
    except _Unknown:
        return None
    count = max(len(argument) for argument in arguments if argument is not None)
    vectors = []
    for result in results:
        if result is None or result.shape[1] != 1:
            return None
        vectors.append(np.broadcast_to(result, (count, 1))[:, 0])
    return vectors


class _Evaluator(BlockEvaluator[Lanes]):
    def captured(self, value: MlirValue) -> Lanes:
        """Refuses: a function reads only its arguments."""
        raise _Unknown

    def results(
        self, operation: ir.Operation, operands: list[Lanes], known: Mapping[MlirValue, Lanes]
    ) -> Sequence[Lanes]:
        """The results of an op."""
        if operation.name == "func.call":
            results = self.call(operation, operands)
            if results is None:
                raise _Unknown
            return results
        if operation.name == "stablehlo.while":
            return self._loop(operation, operands, known)
        if len(operation.results) != 1 or not is_tensor(operation.results[0].type):
            raise _Unknown
        if operation.name == "stablehlo.dynamic_broadcast_in_dim":
            operands = operands[:1]
        arrays = complete(operands)
        return [None if arrays is None else _value(operation, arrays)]

    def _loop(
        self, operation: ir.Operation, state: list[Lanes], known: Mapping[MlirValue, Lanes]
    ) -> list[Lanes]:
        condition, body = (region.blocks[0] for region in operation.regions)
        for _ in range(_LONGEST):
            (going,) = self.block(condition, state, known)
            if going is None or going.size != 1:
                raise _Unknown
            if not going.item():
                return state
            state = self.block(body, state, known)
        raise _Unknown


def _value(operation: ir.Operation, operands: list[np.ndarray]) -> np.ndarray:
    element = element_type(operation.results[0].type)
    if element not in ELEMENT_TYPES:
        raise _Unknown
    dtype = ELEMENT_TYPES[element].numpy()
    if operation.name == "stablehlo.constant":
        return _constant(operation, dtype)
    if any(operand.shape[1] != 1 for operand in operands):
        return _of_table(operation, operands[0])
    if operation.name in _BROADCASTS:
        return _broadcast(operation, operands[0])
    if operation.name == "stablehlo.reshape" and not shape_of(operation.results[0].type):
        return operands[0]
    name = name_of(operation)
    is_integer = dtype.kind in "iu" and all(x.dtype.kind in "iu" for x in operands)
    if not (name in _WITHOUT_BRANCH and is_integer) and not name.startswith(COMPARE):
        raise _Unknown
    result = number(name, operands, dtype)
    if result is None:
        raise _Unknown
    return result


def _constant(operation: ir.Operation, dtype: np.dtype) -> np.ndarray:
    content = np.array(to_python(operation.attributes["value"]))
    if dtype.kind not in "biu" or not content.size:
        raise _Unknown
    if (content == content.flat[0]).all():
        content = content.reshape(-1)[:1]
    if content.ndim > 1:
        raise _Unknown
    return content.astype(dtype).reshape(1, -1)


def _of_table(operation: ir.Operation, table: np.ndarray) -> np.ndarray:
    """A slice of a vector of constants."""
    if operation.name != "stablehlo.slice":
        raise _Unknown
    (start,), (limit,), (stride,) = (
        to_python(operation.attributes[key])
        for key in ("start_indices", "limit_indices", "strides")
    )
    return table[:, start:limit:stride]


def _broadcast(operation: ir.Operation, x: np.ndarray) -> np.ndarray:
    """The same elements, broadcast along axes of extent 1 or from a scalar."""
    dims = to_python(operation.attributes["broadcast_dimensions"])
    if tuple(dims) not in ((), tuple(range(len(shape_of(operation.results[0].type))))):
        raise _Unknown
    return x
