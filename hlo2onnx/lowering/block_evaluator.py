"""Evaluates StableHLO blocks op by op: the walk, and elementwise functions on numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.errors import InternalError
from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.types import ELEMENT_TYPES, element_type, is_tensor, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.values import complete

T = TypeVar("T")

_MISSING: Any = object()

TERMINATORS = frozenset({"func.return", "stablehlo.return"})

COMPARE = "compare "
"""Prefix of a comparison's name; its direction follows."""


def _shifted(
    shift: Callable[[np.ndarray, np.ndarray], np.ndarray], x: np.ndarray, amount: np.ndarray
) -> np.ndarray:
    """A shift of unsigned numbers, 0 where no bit is left."""
    inside = amount < 8 * x.itemsize
    return np.where(inside, shift(x, np.where(inside, amount, 0)), x.dtype.type(0))


_NUMBERS: Mapping[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "convert": lambda x: x,
    "or": np.bitwise_or,
    "shift_left": lambda x, amount: _shifted(np.left_shift, x, amount),
    "shift_right_logical": lambda x, amount: _shifted(np.right_shift, x, amount),
    "subtract": np.subtract,
    "xor": np.bitwise_xor,
}
"""Elementwise ops on integers whose every result says something about all inputs: no selection, no
maximum. The caller converts the result to the op's type."""
_OF_UNSIGNED = frozenset({"shift_left", "shift_right_logical"})


def name_of(operation: ir.Operation) -> str:
    """The name of an op in the tables, "add" or "compare LT"."""
    name: str = operation.name.removeprefix("stablehlo.")
    if name != "compare":
        return name
    return COMPARE + str(to_python(operation.attributes["comparison_direction"]))


class BlockEvaluator(ABC, Generic[T]):
    """One evaluation of a block.

    Args:
        functions: The module's functions by symbol.
    """

    def __init__(self, functions: Mapping[str, ir.Operation]) -> None:
        self._functions = functions
        self._calls: list[str] = []

    @abstractmethod
    def captured(self, value: MlirValue) -> T:
        """A value from outside the block."""

    @abstractmethod
    def results(
        self, operation: ir.Operation, operands: list[T], known: Mapping[MlirValue, T]
    ) -> Sequence[T]:
        """The results of an op.

        Args:
            known: All values of the block so far.
        """

    def returned(self, values: list[T]) -> list[T]:
        """Sees the values that a block returns."""
        return values

    def block(
        self,
        block: ir.Block,
        arguments: Sequence[T],
        outer: Mapping[MlirValue, T] | None = None,
    ) -> list[T]:
        """Evaluates a block; returns the operands of its terminator.

        Args:
            outer: Values from outside that the block may read.
        """
        known = dict(outer or {})
        known.update(zip(block.arguments, arguments, strict=True))
        for view in block.operations:
            operation = view.operation
            operands = []
            for x in operation.operands:
                operand = known.get(x, _MISSING)  # a hash of a value of MLIR takes long
                operands.append(self.captured(x) if operand is _MISSING else operand)
            if operation.name in TERMINATORS:
                return self.returned(operands)
            results = self.results(operation, operands, known)
            known.update(zip(operation.results, results, strict=True))
        raise InternalError("a block without terminator")

    def call(self, operation: ir.Operation, operands: Sequence[T]) -> list[T] | None:
        """The results of a `func.call`; None if the callee has no body or calls itself."""
        symbol = str(to_python(operation.attributes["callee"]))
        function = self._functions.get(symbol)
        if function is None or symbol in self._calls or not function.regions[0].blocks:
            return None
        self._calls.append(symbol)
        results = self.block(function.regions[0].blocks[0], operands)
        self._calls.pop()
        return results


_LONGEST = 1 << 8
"""Loops of more trips than this are not run."""

_BROADCASTS = ("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")


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
    if name == COMPARE + "LT":  # of the counter of a loop
        return np.asarray(operands[0] < operands[1])
    kinds = {dtype.kind, *(x.dtype.kind for x in operands)}
    if name not in _NUMBERS or not kinds <= ({"u"} if name in _OF_UNSIGNED else {"i", "u"}):
        raise _Unknown
    with np.errstate(all="ignore"):
        return np.asarray(_NUMBERS[name](*operands)).astype(dtype, copy=False)


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
