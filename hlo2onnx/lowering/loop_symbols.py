"""Evaluation of the regions of a loop on symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.types import ELEMENT_TYPES, element_type, is_tensor, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.dim_arithmetic import FORMULAS, Item, fits, plain
from hlo2onnx.lowering.block_evaluator import (
    COMPARE,
    TERMINATORS,
    BlockEvaluator,
    name_of,
    number,
)


@dataclass(frozen=True)
class Argument:
    """State `index` at the start of the trip."""

    index: int


@dataclass(frozen=True)
class Step:
    """State `index` plus a constant."""

    index: int
    step: int


@dataclass(frozen=True)
class Outer:
    """A value from outside the loop."""

    value: MlirValue


@dataclass(frozen=True)
class Comparison:
    """`lhs <direction> rhs` of integer scalars."""

    lhs: Symbol
    direction: str
    rhs: Symbol


@dataclass(frozen=True)
class Extent:
    """An integer scalar that follows from shapes, and from the number of the trip."""

    formula: Item


@dataclass(frozen=True, eq=False)
class Write:
    """State `index` with one row along the leading axis written."""

    index: int
    row: np.ndarray | Extent


Symbol = Argument | Step | Outer | Comparison | Write | Extent | np.ndarray | None
"""An array is an integer or boolean scalar known now. None is unknown."""

_OF_STATES = (Argument, Write)

_RESHAPES = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape"})
"""Ops that keep one element where the result is one element, too."""


class SymbolicRun(BlockEvaluator[Symbol]):
    """One run of a region.

    Args:
        functions: The module's functions by symbol.
        known: The content of a value from outside that is an integer scalar known now, or follows
            from shapes.

    Attributes:
        read: The states that something other than the one write of a row reads.
    """

    def __init__(
        self,
        functions: Mapping[str, ir.Operation],
        known: Callable[[MlirValue], np.ndarray | Extent | None],
    ) -> None:
        super().__init__(functions)
        self.read: set[int] = set()
        self._known = known
        self._written: set[int] = set()
        self._integer_scalars: dict[ir.Type, bool] = {}

    def captured(self, value: MlirValue) -> Symbol:
        """The content of a value from outside the loop, or the value itself."""
        known = self._known(value)
        return Outer(value) if known is None else known

    def results(
        self, operation: ir.Operation, operands: list[Symbol], known: Mapping[MlirValue, Symbol]
    ) -> Sequence[Symbol]:
        """The results of an op; marks the states that an unknown op reads."""
        results = self._apply(operation, operands)
        if results is not None:
            return results
        self._read_by(operands)
        self._read_within(operation, known)
        return [None] * len(operation.results)

    def returned(self, symbols: list[Symbol]) -> list[Symbol]:
        """The symbols. A second copy of a written state reads it."""
        written = [symbol.index for symbol in symbols if isinstance(symbol, Write)]
        self.read |= {index for index in written if written.count(index) > 1}
        return symbols

    def _read_by(self, symbols: Sequence[Symbol]) -> None:
        for symbol in symbols:
            if isinstance(symbol, _OF_STATES):
                self.read.add(symbol.index)

    def _read_within(self, operation: ir.Operation, symbols: Mapping[MlirValue, Symbol]) -> None:
        """Marks what the op's regions capture."""
        for region in operation.regions:
            for block in region.blocks:
                for view in block.operations:
                    inner = view.operation
                    captured = [symbols[value] for value in inner.operands if value in symbols]
                    self._read_by(captured)
                    self._read_within(inner, symbols)

    # -- ops ----------------------------------------------------------------------------------

    def _apply(self, operation: ir.Operation, operands: list[Symbol]) -> list[Symbol] | None:
        """The results; None for an unknown op."""
        name = operation.name
        if name == "func.call":
            return self.call(operation, operands)
        if name == "stablehlo.optimization_barrier":
            return operands
        if name == "stablehlo.dynamic_update_slice":
            buffer, update, *starts = operands
            return self._write(buffer, update, starts, _writes_row(operation))
        if name == "stablehlo.scatter" and len(operands) == 3:
            buffer, start, update = operands
            return self._write(buffer, update, [start], _sets_row(operation))
        if name in _RESHAPES and isinstance(operands[0], np.ndarray | Extent):
            return operands if _is_one_integer(operation.results[0].type) else None
        if not self._makes_integer(operation):
            return None
        keeps = name in _RESHAPES or name == "stablehlo.convert"
        if keeps and operation.operands[0].type == operation.results[0].type:
            return operands
        if name == "stablehlo.constant":
            content = np.array(to_python(operation.attributes["value"]))
            return [content.astype(_dtype(operation.results[0].type))]
        numbers = [operand for operand in operands if isinstance(operand, np.ndarray)]
        if len(numbers) == len(operands):
            found = number(name_of(operation), numbers, _dtype(operation.results[0].type))
            return None if found is None else [found]
        if all(isinstance(operand, np.ndarray | Extent) for operand in operands):
            return _followed(operation, operands)
        if name == "stablehlo.compare" and _is_integer_scalar(operation.operands[0].type):
            direction = name_of(operation).removeprefix(COMPARE)
            return [_compared(operands[0], direction, operands[1])]
        return self._step(operation, operands)

    def _makes_integer(self, operation: ir.Operation) -> bool:
        """Whether the only result is an integer scalar."""
        results = operation.results
        if len(results) != 1:
            return False
        mlir_type = results[0].type
        known = self._integer_scalars.get(mlir_type)
        if known is None:
            known = self._integer_scalars[mlir_type] = _is_integer_scalar(mlir_type)
        return known

    def _write(
        self, buffer: Symbol, update: Symbol, starts: Sequence[Symbol], is_row: bool
    ) -> list[Symbol] | None:
        """The update of one whole row of a state that has not been written yet."""
        if (
            not isinstance(buffer, Argument)
            or buffer.index in self._written
            or not is_row
            or not isinstance(starts[0], np.ndarray | Extent)
        ):
            return None
        self._written.add(buffer.index)
        self._read_by([update, *starts])
        return [Write(buffer.index, starts[0])]

    def _step(self, operation: ir.Operation, operands: list[Symbol]) -> list[Symbol] | None:
        """x + constant or x - constant."""
        if operation.name not in ("stablehlo.add", "stablehlo.subtract"):
            return None
        first, second = operands
        if operation.name == "stablehlo.add" and isinstance(first, np.ndarray):
            first, second = second, first
        if not isinstance(first, Argument) or not isinstance(second, np.ndarray):
            return None
        if _dtype(operation.results[0].type).kind == "b" or second.ndim:
            return None
        sign = 1 if operation.name == "stablehlo.add" else -1
        return [Step(first.index, sign * int(second))]


def _followed(operation: ir.Operation, operands: Sequence[Symbol]) -> list[Symbol] | None:
    """The result of an op on operands that follow from shapes."""
    items = [_item(x) for x in operands]
    dtype = oir.DataType.from_numpy(_dtype(operation.results[0].type))
    function = FORMULAS.get(name_of(operation))
    item = None if function is None or None in items else function(*items)
    if item is None or not fits([item], dtype):
        return None
    item = plain(item)
    return [np.asarray(item) if isinstance(item, bool) else Extent(item)]


def _item(symbol: Symbol) -> Item | None:
    if isinstance(symbol, Extent):
        return symbol.formula
    return symbol.item() if isinstance(symbol, np.ndarray) and symbol.ndim == 0 else None


def _compared(lhs: Symbol, direction: str, rhs: Symbol) -> Symbol:
    """The comparison; `x != false`, as JAX converts a boolean to one, is x."""
    if isinstance(lhs, Comparison) and isinstance(rhs, np.ndarray):
        return lhs if direction == "NE" and rhs.dtype.kind == "b" and not rhs.any() else None
    return Comparison(lhs, direction, rhs)


def _writes_row(operation: ir.Operation) -> bool:
    """Whether a dynamic_update_slice writes a whole row along the leading axis."""
    dims, rows = (shape_of(operation.operands[index].type) for index in (0, 1))
    return bool(rows) and rows[0] == 1 and rows[1:] == dims[1:]


def _sets_row(operation: ir.Operation) -> bool:
    """Whether a scatter writes one whole row along the leading axis, given by one index."""
    numbers = to_python(operation.attributes["scatter_dimension_numbers"])
    dims, indices, update = (shape_of(value.type) for value in operation.operands)
    if list(numbers.scattered_dims_to_operand_dims) != [0] or any(dim != 1 for dim in indices):
        return False
    kept = [axis for axis in range(len(dims)) if axis not in numbers.inserted_window_dims]
    windows = zip(kept, numbers.update_window_dims, strict=False)
    sizes = {axis: update[position] for axis, position in windows}
    if numbers.input_batching_dims or sizes.get(0, 1) != 1:
        return False
    whole = all(sizes.get(axis, 1) == dim for axis, dim in enumerate(dims) if axis)
    (block,) = operation.regions[0].blocks
    (first, *_) = block.operations
    returned = list(first.operation.operands) if first.operation.name in TERMINATORS else []
    same = element_type(block.arguments[0].type) == element_type(operation.operands[0].type)
    return whole and same and returned == [block.arguments[1]]


def _is_integer_scalar(mlir_type: ir.Type) -> bool:
    return _is_one_integer(mlir_type) and not shape_of(mlir_type)


def _is_one_integer(mlir_type: ir.Type) -> bool:
    if not is_tensor(mlir_type) or any(dim != 1 for dim in shape_of(mlir_type)):
        return False
    return element_type(mlir_type) in _WHOLE_BYTES


_WHOLE_BYTES = frozenset(
    {"i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"}
)  # fmt: skip


def _dtype(mlir_type: ir.Type) -> np.dtype:
    return ELEMENT_TYPES[element_type(mlir_type)].numpy()
