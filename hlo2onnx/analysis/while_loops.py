"""What a `stablehlo.while` does from trip to trip.

Its regions are run once on symbols instead of values, calls of private functions included. The
symbols tell what a state becomes (itself, itself plus a step, itself with one row written), what
the condition compares, and who reads a state. With a known number of trips the integers that
follow from counters are then known for every trip at once, as arrays over the trips.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sympy
from jaxlib.mlir import ir

from hlo2onnx.analysis.dim_arithmetic import Item
from hlo2onnx.analysis.loop_symbols import (
    Argument,
    Comparison,
    Conjunction,
    Extent,
    Outer,
    Step,
    Symbol,
    SymbolicRun,
    Write,
)
from hlo2onnx.analysis.ranges import Range
from hlo2onnx.ir.dims import (
    difference,
    dim_of,
    expression,
    is_nonnegative,
    is_positive,
    trip_number,
)
from hlo2onnx.ir.values import Dim
from hlo2onnx.mlir.types import element_type, shape_of
from hlo2onnx.mlir.values import MlirValue

LONGEST = 1 << 20
"""Loops of more trips than this are not followed trip by trip."""

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
        ranges: Counters of which the condition says within which bounds each trip finds them.
    """

    invariants: frozenset[int] = frozenset()
    counters: Mapping[int, int] = field(default_factory=dict)
    trips: int | None = None
    limit: Limit | None = None
    length: Dim | None = None
    stacks: Mapping[int, Stack] = field(default_factory=dict)
    ranges: Mapping[int, Range] = field(default_factory=dict)


def loop_form(
    operation: ir.Operation,
    functions: Mapping[str, ir.Operation],
    known: Known,
    shape: ShapeOf = lambda value: shape_of(value.type),
) -> LoopForm:
    """The form of a `stablehlo.while` operation.

    Args:
        functions: The module's functions by symbol.
        known: What is known about values from outside the loop.
        shape: The extents of such values, also of those that are symbolic.
    """
    condition, body = (region.blocks[0] for region in operation.regions)
    states = list(operation.operands)
    arguments: list[Symbol] = [Argument(k) for k in range(len(states))]
    after = SymbolicRun(functions, known).block(body, arguments)
    invariants = frozenset(
        k for k, symbol in enumerate(after) if isinstance(symbol, Argument) and symbol.index == k
    )
    counters = {
        k: symbol.step
        for k, symbol in enumerate(after)
        if isinstance(symbol, Step) and symbol.index == k
    }
    (going,) = SymbolicRun(functions, known).block(condition, arguments)
    trips, limit = _count(going, states, counters, invariants, known)
    length = None if limit is None else _length(limit, counters, states, known)
    stacks: Mapping[int, Stack] = {}
    extents = [shape(value) for value in states]
    if trips is not None and 0 < trips <= LONGEST:
        paths = _paths(states, counters, invariants, trips, known)
        rows = np.arange(trips)
        stacks = _stacks(body, extents, paths, trips, rows, SymbolicRun(functions, known))
    elif length is not None and is_positive(length):
        trip = Extent(expression(trip_number("trip", difference(length, 1))))
        paths = _symbolic_paths(states, counters, invariants, trip, known)
        stacks = _stacks(body, extents, paths, length, trip, SymbolicRun(functions, known))
    ranges = _ranges(going, states, counters, invariants, known)
    return LoopForm(invariants, counters, trips, limit, length, stacks, ranges)


# -- how many trips ---------------------------------------------------------------------------

_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ", "NE": "NE"}


def _count(
    going: Symbol,
    states: Sequence[MlirValue],
    counters: Mapping[int, int],
    invariants: frozenset[int],
    known: Known,
) -> tuple[int | None, Limit | None]:
    """The number of trips, or what tells it."""
    test = _test_of_counter(going, states, counters, invariants)
    if test is None:
        return None, None
    counter, direction, right = test
    step, bound, start = counters[counter], _number(right, known), _now(states[counter], known)
    if start is not None and bound is not None:
        return trip_count(start, step, direction, int(bound)), None
    # With a longer step, or an inequality, the counter might jump past its bound and wrap.
    towards = {"LT": 1, "LE": 1, "GT": -1, "GE": -1}.get(direction)
    if step != towards or element_type(states[counter].type) == "ui64":
        return None, None
    if isinstance(right, Outer):
        return None, Limit(counter, direction, right.value)
    if isinstance(right, Extent):
        return None, Limit(counter, direction, right)
    return None, None if bound is None else Limit(counter, direction, bound)


def _test_of_counter(
    test: Symbol,
    states: Sequence[MlirValue],
    counters: Mapping[int, int],
    invariants: frozenset[int],
) -> tuple[int, str, Symbol] | None:
    """counter, direction, bound of a comparison of a counter."""
    if not isinstance(test, Comparison):
        return None
    left, direction, right = test.lhs, test.direction, test.rhs
    if not (isinstance(left, Argument) and left.index in counters):
        left, direction, right = right, _MIRRORED[direction], left
    if not (isinstance(left, Argument) and left.index in counters):
        return None
    if isinstance(right, Argument) and right.index in invariants:
        right = Outer(states[right.index])
    return left.index, direction, right


def _number(symbol: Symbol, known: Known) -> np.ndarray | None:
    """The content of a symbol that is known now."""
    if isinstance(symbol, Outer):
        return _now(symbol.value, known)
    return symbol if isinstance(symbol, np.ndarray) else None


def _now(value: MlirValue, known: Known) -> np.ndarray | None:
    """The content of a value that is known now."""
    content = known(value)
    return content if isinstance(content, np.ndarray) else None


def _length(
    limit: Limit, counters: Mapping[int, int], states: Sequence[MlirValue], known: Known
) -> Dim | None:
    """The number of trips, if it follows from shapes."""
    bound = limit.bound
    content = bound if isinstance(bound, np.ndarray | Extent) else known(bound)
    first, last = _formula(known(states[limit.counter])), _formula(content)
    if first is None or last is None:
        return None
    count = sympy.sympify((last - first) * counters[limit.counter])
    count += int(limit.direction in ("LE", "GE"))
    return dim_of(count) if is_nonnegative(count) else None


def _formula(content: np.ndarray | Extent | None) -> Item | None:
    if isinstance(content, Extent):
        return content.formula
    return None if content is None else content.item()


def _ranges(
    going: Symbol,
    states: Sequence[MlirValue],
    counters: Mapping[int, int],
    invariants: frozenset[int],
    known: Known,
) -> dict[int, Range]:
    """Bounds of counters at the start of a trip: from where they start to where the condition no
    longer holds, if they do not wrap on their way."""
    ranges = {}
    for term in going.terms if isinstance(going, Conjunction) else (going,):
        test = _test_of_counter(term, states, counters, invariants)
        if test is None:
            continue
        counter, direction, right = test
        step, bound, start = counters[counter], _number(right, known), _now(states[counter], known)
        if bound is None or start is None:
            continue
        first, last, info = int(start), int(bound), np.iinfo(start.dtype)
        if direction in ("LT", "LE") and step > 0:
            last -= direction == "LT"
            if first <= last <= info.max - step:
                ranges[counter] = Range(first, last)
        elif direction in ("GT", "GE") and step < 0:
            last += direction == "GT"
            if info.min - step <= last <= first:
                ranges[counter] = Range(last, first)
    return ranges


def trip_count(start: np.ndarray, step: int, direction: str, bound: int) -> int | None:
    """How often `counter <direction> bound` holds for a counter from `start` on; None if it
    wraps before it no longer does, or for ever."""
    first = int(start)
    if direction in ("GT", "GE"):
        count = _rising(-first, -step, -bound + (direction == "GE"))
    elif direction in ("LT", "LE"):
        count = _rising(first, step, bound + (direction == "LE"))
    elif direction == "NE":
        count = _until(first, step, bound)
    else:
        count = None if first == bound and not step else int(first == bound)
    if count is None or count < 0:
        return None
    info = np.iinfo(start.dtype)
    fits = count <= np.iinfo(np.int64).max and info.min <= first + step * count <= info.max
    return count if fits else None


def _until(first: int, step: int, bound: int) -> int | None:
    if first == bound:
        return 0
    return (bound - first) // step if step and (bound - first) % step == 0 else None


def _rising(first: int, step: int, bound: int) -> int | None:
    if first >= bound:
        return 0
    return math.ceil((bound - first) / step) if step > 0 else None


# -- what is known of every trip --------------------------------------------------------------


def _paths(
    states: Sequence[MlirValue],
    counters: Mapping[int, int],
    invariants: frozenset[int],
    trips: int,
    known: Known,
) -> list[Symbol]:
    """The states at the start of every trip, as far as they are known."""
    paths: list[Symbol] = [Argument(k) for k in range(len(states))]
    for k in invariants | counters.keys():
        start = _now(states[k], known)
        if start is not None:
            steps = np.arange(trips, dtype=np.int64) * counters.get(k, 0)
            with np.errstate(all="ignore"):
                paths[k] = start + steps.astype(start.dtype)
    return paths


def _symbolic_paths(
    states: Sequence[MlirValue],
    counters: Mapping[int, int],
    invariants: frozenset[int],
    trip: Extent,
    known: Known,
) -> list[Symbol]:
    """The states at the start of a trip, as far as they follow from its number and from shapes."""
    paths: list[Symbol] = [Argument(k) for k in range(len(states))]
    for k in invariants | counters.keys():
        start = _formula(known(states[k]))
        if start is not None:
            paths[k] = Extent(start + trip.formula * counters.get(k, 0))
    return paths


def _stacks(
    body: ir.Block,
    extents: Sequence[Sequence[Dim | None]],
    paths: Sequence[Symbol],
    trips: Dim,
    rows: np.ndarray | Extent,
    run: SymbolicRun,
) -> dict[int, Stack]:
    """The buffers that become stacks.

    Args:
        extents: Of the states.
        rows: The number of each trip.
    """
    stacks = {}
    after = run.block(body, paths)
    # What becomes another state is read by whoever reads that one.
    moved = {s.index for k, s in enumerate(after) if isinstance(s, Argument) and s.index != k}
    for k, symbol in enumerate(after):
        if k in moved or not isinstance(symbol, Write) or symbol.index != k or k in run.read:
            continue
        if extents[k][0] != trips:
            continue
        if _is_equal(symbol.rows, rows):
            stacks[k] = Stack(reverse=False)
        elif _is_equal(symbol.rows, _backwards(rows, trips)):
            stacks[k] = Stack(reverse=True)
    return stacks


def _backwards(rows: np.ndarray | Extent, trips: Dim) -> np.ndarray | Extent:
    if isinstance(rows, Extent):
        return Extent(expression(trips) - 1 - rows.formula)
    return rows[::-1]


def _is_equal(one: np.ndarray | Extent, other: np.ndarray | Extent) -> bool:
    if isinstance(one, Extent) and isinstance(other, Extent):
        return bool(sympy.expand(one.formula - other.formula) == 0)
    if isinstance(one, Extent) or isinstance(other, Extent):
        return False
    return bool((one == other).all())
