"""Evaluation of StableHLO blocks, op by op.

`BlockEvaluator` walks a block and enters calls; a subclass says what a value is in its domain and
what an op makes of such values. The elementwise integer ops are tables: `NUMBERS` for numpy arrays
and `hlo2onnx.analysis.dim_arithmetic.FORMULAS` for expressions of extents, by the same names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.errors import InternalError
from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.values import MlirValue

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


NUMBERS: Mapping[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "and": np.bitwise_and,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "convert": lambda x: x,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "or": np.bitwise_or,
    "select": np.where,
    "shift_left": lambda x, amount: _shifted(np.left_shift, x, amount),
    "shift_right_logical": lambda x, amount: _shifted(np.right_shift, x, amount),
    "subtract": np.subtract,
    "xor": np.bitwise_xor,
    "compare EQ": np.equal,
    "compare GE": np.greater_equal,
    "compare GT": np.greater,
    "compare LE": np.less_equal,
    "compare LT": np.less,
    "compare NE": np.not_equal,
}
"""Elementwise ops on arrays of integers. The caller converts the result to the op's type."""

_OF_BOOLEANS = frozenset({"and", "convert", "or", "select", "xor"})
_OF_UNSIGNED = frozenset({"shift_left", "shift_right_logical"})


def name_of(operation: ir.Operation) -> str:
    """The name of an op in the tables, "add" or "compare LT"."""
    name: str = operation.name.removeprefix("stablehlo.")
    if name != "compare":
        return name
    return COMPARE + str(to_python(operation.attributes["comparison_direction"]))


def number(name: str, operands: Sequence[np.ndarray], dtype: np.dtype) -> np.ndarray | None:
    """The result of an op of `NUMBERS` in its type, None for other ops and types."""
    function = NUMBERS.get(name)
    # On booleans add and multiply are OR and AND, which no program counts with.
    is_logic = name in _OF_BOOLEANS or name.startswith(COMPARE)
    if function is None or (dtype.kind == "b" and not is_logic):
        return None
    if name in _OF_UNSIGNED and dtype.kind != "u":
        return None
    with np.errstate(all="ignore"):
        return np.asarray(function(*operands)).astype(dtype, copy=False)


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
