"""The form of a `stablehlo.while`: counters, trip count, stacked buffers.

Its regions, with the private functions they call, are evaluated once on symbols. The symbols tell
what a state becomes (itself, itself plus a step, itself with one row written), what the condition
compares, and who reads a state. If the trip count is known, the integers that follow from counters
are formulas of the trip number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as oir
import sympy
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.types import ELEMENT_TYPES, element_type, is_tensor, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.dim_arithmetic import FORMULAS, Item, fits, plain
from hlo2onnx.ir.dims import (
    difference,
    dim_of,
    expression,
    is_nonnegative,
    is_positive,
    trip_number,
)
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import Dim
from hlo2onnx.lowering.block_evaluator import COMPARE, TERMINATORS, BlockEvaluator, name_of

Known = Callable[[MlirValue], Item | None]
"""The content of an MLIR value that is an integer scalar known at translation time, or follows
from shapes."""

ShapeOf = Callable[[MlirValue], Sequence[Dim | None]]
"""The extents of an MLIR value; None for one that nothing is known of."""


@dataclass(frozen=True)
class Limit:
    """The loop goes on while `counter <direction> bound`.

    Attributes:
        counter: Which state counts.
        direction: "LT", "LE", "GT" or "GE", towards which the counter steps.
        bound: An MLIR value from outside the loop, or what is known of it.
    """

    counter: int
    direction: str
    bound: MlirValue | Item


@dataclass(frozen=True)
class LoopForm:
    """The form of a loop.

    Attributes:
        invariants: States that stay what they are.
        counters: Integer scalars that grow by a constant, with that step.
        trips: The trip count, if it is known now or follows from shapes.
        limit: What determines the trip count before the loop starts, if it is not known now.
        stacks: Buffers that nobody reads in the loop and every row of which is written once: they
            are outputs of the trips. True if the rows are written from the last to the first.
    """

    invariants: frozenset[int] = frozenset()
    counters: Mapping[int, int] = field(default_factory=dict)
    trips: Dim | None = None
    limit: Limit | None = None
    stacks: Mapping[int, bool] = field(default_factory=dict)


def loop_form(
    operation: ir.Operation,
    functions: Mapping[str, ir.Operation],
    known: Known,
    shape: ShapeOf = lambda value: shape_of(value.type),
) -> LoopForm:
    """The form of a `stablehlo.while` operation.

    Args:
        functions: The module's functions by symbol.
        known: The content of values from outside the loop.
        shape: The extents of such values, also of those that are symbolic.
    """
    condition, body = (region.blocks[0] for region in operation.regions)
    states: list[MlirValue] = list(operation.operands)
    arguments: list[Symbol] = [Argument(k) for k in range(len(states))]
    run = partial(_SymbolicRun, functions, known)
    after = run().block(body, arguments)
    same = [isinstance(x, Argument | Step) and x.index == k for k, x in enumerate(after)]
    invariants = {k for k, x in enumerate(after) if same[k] and isinstance(x, Argument)}
    counters = {k: x.step for k, x in enumerate(after) if same[k] and isinstance(x, Step)}
    (going,) = run().block(condition, arguments)
    limit = _limit(going, states, invariants, counters)
    trips = None
    if limit is not None:
        first, last = known(states[limit.counter]), limit.bound
        last = last if _is_item(last) else known(last)
        trips, limit = _count(limit, counters[limit.counter], first, last, states)
    stacks: Mapping[int, bool] = {}
    extents = [shape(value) for value in states]
    if trips is not None and is_positive(trips) and any(x and x[0] == trips for x in extents):
        trip = expression(trip_number("trip", difference(trips, 1)))
        for k in invariants | counters.keys():
            path = _at_trip(states[k], known(states[k]), trip * counters.get(k, 0))
            arguments[k] = arguments[k] if path is None else path
        stacks = _stacks(run(), body, arguments, extents, trips, trip)
    return LoopForm(frozenset(invariants), counters, trips, limit, stacks)


# -- how many trips ------------------------------------------------------------------------------

_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}
"""Comparisons that count trips. A counter may pass the number that it must not equal."""


def _limit(
    test: Symbol, states: Sequence[MlirValue], invariants: set[int], counters: Mapping[int, int]
) -> Limit | None:
    """The comparison of a counter that a condition is; None for other conditions."""
    if not isinstance(test, Comparison) or test.direction not in _MIRRORED:
        return None
    for left, direction, right in (
        (test.lhs, test.direction, test.rhs),
        (test.rhs, _MIRRORED[test.direction], test.lhs),
    ):
        if isinstance(left, Argument) and left.index in counters:
            if isinstance(right, Argument) and right.index in invariants:
                return Limit(left.index, direction, states[right.index])
            bound = right.value if isinstance(right, Outer) else right
            is_known = isinstance(right, Outer) or _is_item(right)
            return Limit(left.index, direction, bound) if is_known else None
    return None


def _count(
    limit: Limit, step: int, first: Item | None, last: Item | None, states: Sequence[MlirValue]
) -> tuple[Dim | None, Limit | None]:
    """The trip count, and the limit that determines it when the program runs."""
    element = element_type(states[limit.counter].type)
    if isinstance(first, int) and isinstance(last, int):
        return trip_count(first, step, limit.direction, last, ELEMENT_TYPES[element]), None
    # With a longer step, or an inequality, the counter might jump past its bound and wrap.
    if step != (1 if limit.direction in ("LT", "LE") else -1) or element == "ui64":
        return None, None
    if first is None or last is None:
        return None, limit
    count = sympy.sympify((last - first) * step) + int(limit.direction in ("LE", "GE"))
    return (dim_of(count) if is_nonnegative(count) else None), limit


def trip_count(
    first: int, step: int, direction: str, bound: int, dtype: oir.DataType
) -> int | None:
    """How often `counter <direction> bound` holds for a counter from `first` on; None if it
    wraps before it no longer does, or for ever."""
    rises = direction in ("LT", "LE")
    end = bound + (direction == "LE") - (direction == "GE")
    left = end - first if rises else first - end
    towards = step if rises else -step
    if left <= 0:
        return 0
    count = -(-left // towards) if towards > 0 else -1
    low, high = range_of_type(dtype)
    is_reached = 0 < count <= range_of_type(oir.DataType.INT64).high
    return count if is_reached and low <= first + step * count <= high else None


# -- what is known of every trip -----------------------------------------------------------------


def _at_trip(state: MlirValue, start: Item | None, more: Item) -> Item | None:
    """A state at the start of a trip, if it follows from the trip number and from shapes."""
    if start is None:
        return None
    item = plain(start + more) if more != 0 else start
    return item if fits([item], ELEMENT_TYPES[element_type(state.type)]) else None


def _stacks(
    run: _SymbolicRun,
    body: ir.Block,
    arguments: Sequence[Symbol],
    extents: Sequence[Sequence[Dim | None]],
    trips: Dim,
    trip: Item,
) -> dict[int, bool]:
    """The buffers that become stacks.

    Args:
        arguments: The states at the start of a trip.
        extents: Of the states.
        trip: The trip number.
    """
    after = run.block(body, arguments)
    # A state that becomes another state is read by whoever reads that one.
    moved = {x.index for k, x in enumerate(after) if isinstance(x, Argument) and x.index != k}
    stacks: dict[int, bool] = {}
    for k, symbol in enumerate(after):
        if k in moved or not isinstance(symbol, Write) or symbol.index != k or k in run.read:
            continue
        if extents[k][0] == trips:
            for is_reversed, row in ((False, trip), (True, expression(trips) - 1 - trip)):
                if sympy.expand(symbol.row - row) == 0:
                    stacks[k] = is_reversed
    return stacks


# -- evaluation on symbols -----------------------------------------------------------------------


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
class Write:
    """State `index` with one row along the leading axis written."""

    index: int
    row: Item


Symbol = Any
"""One of these, None for what is unknown, or an `Item`: the content of an integer or boolean of one
element that is known now, or follows from shapes and the trip number."""

_RESHAPES = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape"})
"""Ops that keep one element where the result is one element, too."""
_KEEP = _RESHAPES | {"stablehlo.convert"}
"""Ops that do nothing where the result has the type of the operand."""


class _SymbolicRun(BlockEvaluator[Symbol]):
    """One run of a region.

    Attributes:
        read: The states that something other than the one write of a row reads.
    """

    def __init__(self, functions: Mapping[str, ir.Operation], known: Known) -> None:
        super().__init__(functions)
        self.read: set[int] = set()
        self._known = known
        self._written: set[int] = set()

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

    def returned(self, values: list[Symbol]) -> list[Symbol]:
        """The symbols. A second copy of a written state reads it."""
        written = [symbol.index for symbol in values if isinstance(symbol, Write)]
        self.read |= {index for index in written if written.count(index) > 1}
        return values

    def _read_by(self, symbols: Sequence[Symbol]) -> None:
        self.read.update(x.index for x in symbols if isinstance(x, Argument | Write))

    def _read_within(self, operation: ir.Operation, symbols: Mapping[MlirValue, Symbol]) -> None:
        """Marks what the op's regions capture."""
        for region in operation.regions:
            for block in region.blocks:
                for view in block.operations:
                    inner = view.operation
                    self._read_by([symbols[x] for x in inner.operands if x in symbols])
                    self._read_within(inner, symbols)

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
        if (operands and all(x is None for x in operands)) or not _makes_integer(operation):
            return None
        result = operation.results[0].type
        if name in _RESHAPES and _is_item(operands[0]):
            return operands
        if name in _KEEP and operation.operands[0].type == result:
            return operands
        if name == "stablehlo.constant":
            return [np.array(to_python(operation.attributes["value"])).item()]
        if all(map(_is_item, operands)):
            function = FORMULAS.get(name_of(operation))
            return None if function is None else _held([function(*operands)], result)
        if shape_of(result):
            return None
        if name == "stablehlo.compare":
            direction = name_of(operation).removeprefix(COMPARE)
            return [_compared(operands[0], direction, operands[1])]
        return _step(name, operands)

    def _write(
        self, buffer: Symbol, update: Symbol, starts: Sequence[Symbol], is_row: bool
    ) -> list[Symbol] | None:
        """The update of one whole row of a state that has not been written yet."""
        is_first = isinstance(buffer, Argument) and buffer.index not in self._written
        if not is_first or not is_row or not _is_item(starts[0]):
            return None
        self._written.add(buffer.index)
        self._read_by([update, *starts])
        return [Write(buffer.index, starts[0])]


def _is_item(symbol: Symbol) -> bool:
    return isinstance(symbol, int | sympy.Basic)


def _held(items: list[Item | None], mlir_type: ir.Type) -> list[Symbol] | None:
    """Items that an integer type holds, as the results of an op."""
    (item,) = items
    if item is None or not fits(items, ELEMENT_TYPES[element_type(mlir_type)]):
        return None
    return [plain(item)]


def _step(name: str, operands: Sequence[Symbol]) -> list[Symbol] | None:
    """x + constant or x - constant."""
    if name not in ("stablehlo.add", "stablehlo.subtract"):
        return None
    first, second = operands
    if name == "stablehlo.add" and isinstance(first, int):
        first, second = second, first
    is_step = isinstance(first, Argument) and type(second) is int  # of booleans it is a choice
    sign = 1 if name == "stablehlo.add" else -1
    return [Step(first.index, sign * second)] if is_step else None


def _compared(lhs: Symbol, direction: str, rhs: Symbol) -> Symbol:
    """The comparison; `x != false`, as JAX converts a boolean to one, is x."""
    if isinstance(lhs, Comparison):
        return lhs if direction == "NE" and rhs is False else None
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


_WHOLE_BYTES = frozenset({"i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"})


def _makes_integer(operation: ir.Operation) -> bool:
    """Whether the only result is an integer or boolean of one element."""
    results = operation.results
    if len(results) != 1 or not is_tensor(results[0].type):
        return False
    mlir_type = results[0].type
    is_one = all(dim == 1 for dim in shape_of(mlir_type))
    return is_one and element_type(mlir_type) in _WHOLE_BYTES
