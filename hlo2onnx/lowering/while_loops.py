"""The form of a `stablehlo.while`: counters, number of trips, stacked buffers.

Its regions, with the private functions they call, are evaluated once on symbols. The symbols tell
what a state becomes (itself, itself plus a step, itself with one row written), what the condition
compares, and who reads a state. If the number of trips is known, the integers that follow from
counters are then formulas of the number of the trip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sympy
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.types import ELEMENT_TYPES, element_type, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.dim_arithmetic import Item, fits, plain
from hlo2onnx.ir.dims import (
    difference,
    dim_of,
    expression,
    is_nonnegative,
    is_positive,
    trip_number,
)
from hlo2onnx.ir.values import Dim
from hlo2onnx.lowering.loop_symbols import (
    Argument,
    Comparison,
    Extent,
    Outer,
    Step,
    Symbol,
    SymbolicRun,
    Write,
)

Known = Callable[[MlirValue], np.ndarray | Extent | None]
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
        bound: An MLIR value from outside the loop, an array of rank 0, or an extent.
    """

    counter: int
    direction: str
    bound: MlirValue | np.ndarray | Extent


@dataclass(frozen=True)
class Stack:
    """A buffer that nobody reads in the loop and every row of which is written once.

    Attributes:
        reverse: Whether the rows are written from the last to the first.
    """

    reverse: bool


@dataclass(frozen=True)
class LoopForm:
    """The form of a loop.

    Attributes:
        invariants: States that stay what they are.
        counters: Integer scalars that grow by a constant, with that step.
        trips: The number of trips, when it is known now.
        limit: What tells the number of trips before the loop starts.
        length: The number of trips, where it is one that follows from shapes.
        stacks: Buffers that are outputs of the trips, one row each.
    """

    invariants: frozenset[int] = frozenset()
    counters: Mapping[int, int] = field(default_factory=dict)
    trips: int | None = None
    limit: Limit | None = None
    length: Dim | None = None
    stacks: Mapping[int, Stack] = field(default_factory=dict)


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
    return _Loop(operation, functions, known).form(shape)


_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}
"""Comparisons that count trips. A counter may pass the number that it must not equal."""


class _Loop:
    """A loop whose regions have been run once.

    Attributes:
        states: The values that the states start with.
        invariants: States that stay what they are.
        counters: Integer scalars that grow by a constant, with that step.
        going: What the condition compares.
    """

    def __init__(
        self, operation: ir.Operation, functions: Mapping[str, ir.Operation], known: Known
    ) -> None:
        self._functions, self._known = functions, known
        condition, self._body = (region.blocks[0] for region in operation.regions)
        self.states: list[MlirValue] = list(operation.operands)
        self._arguments: list[Symbol] = [Argument(k) for k in range(len(self.states))]
        self.invariants: set[int] = set()
        self.counters: dict[int, int] = {}
        for k, symbol in enumerate(self._run().block(self._body, self._arguments)):
            if isinstance(symbol, Argument) and symbol.index == k:
                self.invariants.add(k)
            if isinstance(symbol, Step) and symbol.index == k:
                self.counters[k] = symbol.step
        (self.going,) = self._run().block(condition, self._arguments)

    def _run(self) -> SymbolicRun:
        return SymbolicRun(self._functions, self._known)

    def form(self, shape: ShapeOf) -> LoopForm:
        """The form of the loop."""
        trips, limit = self._count()
        length = None if limit is None else self._length(limit)
        stacks: Mapping[int, Stack] = {}
        extents = [shape(value) for value in self.states]
        count = length if trips is None else trips
        if count is not None and is_positive(count):
            trip = Extent(expression(trip_number("trip", difference(count, 1))))
            stacks = self._stacks(extents, self._paths(trip), count, trip)
        invariants = frozenset(self.invariants)
        return LoopForm(invariants, self.counters, trips, limit, length, stacks)

    # -- how many trips -----------------------------------------------------------------------

    def _count(self) -> tuple[int | None, Limit | None]:
        """The number of trips, or the bound that determines it."""
        test = self._test_of_counter(self.going)
        if test is None:
            return None, None
        counter, direction, right = test
        state, step, bound = self.states[counter], self.counters[counter], self._number(right)
        start = self._now(state)
        if start is not None and bound is not None:
            return trip_count(start, step, direction, int(bound)), None
        # With a longer step, or an inequality, the counter might jump past its bound and wrap.
        if step != (1 if direction in ("LT", "LE") else -1) or element_type(state.type) == "ui64":
            return None, None
        if isinstance(right, Outer):
            return None, Limit(counter, direction, right.value)
        if isinstance(right, Extent):
            return None, Limit(counter, direction, right)
        return None, None if bound is None else Limit(counter, direction, bound)

    def _test_of_counter(self, test: Symbol) -> tuple[int, str, Symbol] | None:
        """Counter, direction and bound of a comparison of a counter."""
        if not isinstance(test, Comparison) or test.direction not in _MIRRORED:
            return None
        left, direction, right = test.lhs, test.direction, test.rhs
        if not (isinstance(left, Argument) and left.index in self.counters):
            left, direction, right = right, _MIRRORED[direction], left
        if not (isinstance(left, Argument) and left.index in self.counters):
            return None
        if isinstance(right, Argument) and right.index in self.invariants:
            right = Outer(self.states[right.index])
        return left.index, direction, right

    def _number(self, symbol: Symbol) -> np.ndarray | None:
        """The content of a symbol that is known now."""
        if isinstance(symbol, Outer):
            return self._now(symbol.value)
        return symbol if isinstance(symbol, np.ndarray) else None

    def _now(self, value: MlirValue) -> np.ndarray | None:
        """The content of a value that is known now."""
        content = self._known(value)
        return content if isinstance(content, np.ndarray) else None

    def _length(self, limit: Limit) -> Dim | None:
        """The number of trips, if it follows from shapes."""
        bound = limit.bound
        content = bound if isinstance(bound, np.ndarray | Extent) else self._known(bound)
        first, last = _formula(self._known(self.states[limit.counter])), _formula(content)
        if first is None or last is None:
            return None
        count = sympy.sympify((last - first) * self.counters[limit.counter])
        count += int(limit.direction in ("LE", "GE"))
        return dim_of(count) if is_nonnegative(count) else None

    # -- what is known of every trip ----------------------------------------------------------

    def _paths(self, trip: Extent) -> list[Symbol]:
        """The states at the start of a trip, as far as they follow from its number and
        from shapes."""
        paths = list(self._arguments)
        for k in self.invariants | self.counters.keys():
            start = _formula(self._known(self.states[k]))
            if start is None:
                continue
            item = plain(start + trip.formula * self.counters.get(k, 0))
            if fits([item], ELEMENT_TYPES[element_type(self.states[k].type)]):
                paths[k] = Extent(item)
        return paths

    def _stacks(
        self,
        extents: Sequence[Sequence[Dim | None]],
        paths: Sequence[Symbol],
        trips: Dim,
        trip: Extent,
    ) -> dict[int, Stack]:
        """The buffers that become stacks.

        Args:
            extents: Of the states.
            trip: The number of a trip.
        """
        stacks: dict[int, Stack] = {}
        if not any(dims and dims[0] == trips for dims in extents):
            return stacks
        run = self._run()
        after = run.block(self._body, paths)
        # A state that becomes another state is read by whoever reads that one.
        moved = {s.index for k, s in enumerate(after) if isinstance(s, Argument) and s.index != k}
        for k, symbol in enumerate(after):
            if k in moved or not isinstance(symbol, Write) or symbol.index != k or k in run.read:
                continue
            if extents[k][0] != trips or not isinstance(symbol.row, Extent):
                continue
            for reverse, row in enumerate((trip.formula, expression(trips) - 1 - trip.formula)):
                if sympy.expand(symbol.row.formula - row) == 0:
                    stacks[k] = Stack(reverse=bool(reverse))
        return stacks


def _formula(content: np.ndarray | Extent | None) -> Item | None:
    if isinstance(content, Extent):
        return content.formula
    return None if content is None else content.item()


def trip_count(start: np.ndarray, step: int, direction: str, bound: int) -> int | None:
    """How often `counter <direction> bound` holds for a counter from `start` on; None if it
    wraps before it no longer does, or for ever."""
    first, info, rises = int(start), np.iinfo(start.dtype), direction in ("LT", "LE")
    end = bound + (direction == "LE") - (direction == "GE")
    left = end - first if rises else first - end
    towards = step if rises else -step
    if left <= 0:
        return 0
    count = -(-left // towards) if towards > 0 else -1
    fits = 0 < count <= np.iinfo(np.int64).max and info.min <= first + step * count <= info.max
    return count if fits else None
