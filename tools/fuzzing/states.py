"""Counters and states of loops.

A state keeps the quality and the grid of its argument: a body brings a value back onto that grid
before it returns it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tools.fuzzing.branches import anything, within
from tools.fuzzing.builder import MAX_SIZE, Builder, Unsuitable, has_grid
from tools.fuzzing.elements import (
    ALL,
    COMMON_FLOATS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMPY,
    SIGNED,
    SMALL_FLOATS,
    integer_range,
)
from tools.fuzzing.indices import apply, filled, normalized
from tools.fuzzing.movement import start_types
from tools.fuzzing.program import Grid, Quality, Type, Value, together
from tools.fuzzing.reductions import body

MOST_ROWS = 6


@dataclass(frozen=True, eq=False)
class State:
    """Something a loop carries.

    Attributes:
        init: What it is at first.
        like: What its argument is declared to be.
        rows: Of a stack; each trip writes one.
        partner: The state whose argument it is next; itself where it stays what it is.
    """

    init: Value
    like: Value
    rows: int = 0
    partner: list[State] = field(default_factory=list)


@dataclass(frozen=True)
class Loop:
    """A loop in the making, in one of its regions.

    Attributes:
        arguments: Of the region, by state.
    """

    count: Count
    counter: State
    arguments: Mapping[State, Value]

    @property
    def at(self) -> Value:
        """The counter."""
        return self.arguments[self.counter]


def drawn_states(b: Builder, count: Count) -> list[State]:
    """A state, or two that change places."""
    kind = b.rng.random()
    if kind < 0.35:
        return [_stack(b, count)]
    x = anything(b)
    if kind < 0.5:
        return [kept(x)]
    like = _declared(b, x)
    if kind < 0.6:
        y = b.like(x.type, Quality.CLOSE)
        quality, grid, _ = together(like, _declared(b, y))
        scale = max(x.scale, y.scale)
        like = replace(like, quality=quality, grid=grid, scale=scale)
        pair = [State(x, like), State(y, like)]
        pair[0].partner.append(pair[1])
        pair[1].partner.append(pair[0])
        return pair
    return [State(x, like)]


def kept(x: Value) -> State:
    """A state that stays what it is."""
    state = State(x, x)
    state.partner.append(state)
    return state


def next_of(b: Builder, loop: Loop, state: State) -> Value:
    """What a state is next."""
    if state is loop.counter:
        return loop.count.next(b, loop.at)
    if state.partner:
        return loop.arguments[state.partner[0]]
    if state.rows:
        row = _row_for(b, state.like, state.like.type.shape[1:])
        return with_row(b, loop, loop.arguments[state], row)
    return _next(b, loop.arguments[state], state.like)


def _declared(b: Builder, x: Value) -> Value:
    """What the argument of a state is known to be that begins as x."""
    if x.type.element not in FLOATS + COMPLEX:
        return x
    grid = x.grid
    if grid is not None and x.type.element in COMMON_FLOATS:
        grid = Grid(max(grid.bound, 8), max(grid.bits, 1))
    # The runtime's Where drops the sign of a zero.
    quality = min(x.quality, Quality.EQUAL)
    scale = max((value.scale for value in b.visible), default=0.0)
    return replace(x, quality=quality, grid=grid, scale=scale, moderate=False)


def _next(b: Builder, argument: Value, like: Value) -> Value:
    """What a state is next: something of its type, most often made in the body."""
    found = [
        value
        for value in b.visible
        if value.type == like.type
        and value.quality >= like.quality
        and (value.quality > Quality.CLOSE or value.scale <= like.scale)
    ]
    own = [value for value in found if value.index > argument.index]
    if own and b.rng.random() < 0.85:
        found = own
    return _brought_back(b, b.rng.choice(found), like, argument)


def _brought_back(b: Builder, value: Value, like: Value, otherwise: Value) -> Value:
    """The value on the state's grid."""
    grid, element = like.grid, like.type.element
    if within(value.grid, grid):
        return value
    if value.grid is None or grid is None or element not in COMMON_FLOATS:
        return otherwise
    if value.grid.bits > grid.bits:
        floored = Grid(math.ceil(value.grid.bound), 0)
        (value,) = b.step("floor", [value], [(value.type, Quality.EQUAL, floored)])
        assert value.grid is not None
    if value.grid.bound > grid.bound:
        ends = [b.scalar(element, end) for end in (-grid.bound, grid.bound)]
        inside = Grid(grid.bound, value.grid.bits)
        operands = [ends[0], value, ends[1]]
        (value,) = b.step("clamp", operands, [(value.type, Quality.EQUAL, inside)])
    return value


def _stack(b: Builder, count: Count) -> State:
    """A buffer of which each trip writes a row: all of them, in order, or others."""
    element = b.rng.choice(ALL + SMALL_FLOATS)
    row = b.shape(b.rng.choice([0, 0, 1, 1, 2]))
    rows = count.trips if b.rng.random() < 0.75 else b.rng.randint(1, MOST_ROWS)
    if math.prod(row) * rows > MAX_SIZE or not rows:
        raise Unsuitable
    type_ = Type(element, (rows, *row))
    init = zeros(b, type_) if b.rng.random() < 0.7 else b.like(type_)
    return State(init, _declared(b, init), rows)


def with_row(b: Builder, loop: Loop, stack: Value, row: Value) -> Value:
    """A stack with another row written."""
    rows, *dims = stack.type.shape
    index = index_of(b, loop, rows)
    made = [stack.made]
    if b.rng.random() < 0.3:
        vector = Type(index.type.element, (1,))
        index = apply(b, "reshape", [index], vector, lambda x: x.reshape(1))
        text = (
            f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims ="
            f" {list(range(len(dims)))}, inserted_window_dims = [0],"
            " scatter_dims_to_operand_dims = [0]>, unique_indices = true"
        )
        region = body(["set"], [stack.type.element])
        return b.step("scatter", [stack, index, row], made, text, region, scale=stack.scale)[0]
    sized = Type(stack.type.element, (1, *dims))
    if b.rng.random() < 0.5:
        row = b.spread(row, sized, range(1, len(dims) + 1))
    else:
        widened = [(sized, row.quality, row.grid)]
        (row,) = b.step("reshape", [row], widened, scale=row.scale)
    operands = [stack, row, index, *(filled(b, index.type, 0) for _ in dims)]
    return b.step("dynamic_update_slice", operands, made, scale=stack.scale)[0]


def _row_for(b: Builder, like: Value, row: tuple[int, ...]) -> Value:
    """A row that fits into the buffer."""
    type_ = Type(like.type.element, row)
    made = b.like(type_, max(like.quality, Quality.EQUAL))
    fits = replace(like, type=type_)
    back = _brought_back(b, made, fits, made)
    return back if within(back.grid, like.grid) else b.leaf(type_, "grid")


def zeros(b: Builder, type_: Type) -> Value:
    """As JAX begins a stack."""
    grid = Grid(0, 0) if has_grid(type_.element) else None
    return b.spread(b.scalar(type_.element, 0, grid), type_)


def index_of(b: Builder, loop: Loop, rows: int) -> Value:
    """The counter as the index of a row, upwards, downwards or moved."""
    type_, index = loop.count.type, loop.at
    if type_.element not in start_types(b):
        type_ = Type("i32", ())
        index = apply(b, "convert", [index], type_, lambda x: x)
    kind = b.rng.random()
    if kind < 0.25 and rows - 1 <= integer_range(type_.element)[1]:
        index = apply(b, "subtract", [filled(b, type_, rows - 1), index], type_, np.subtract)
    elif kind < 0.4:
        by = filled(b, type_, b.rng.choice([1, 2, abs(loop.count.step)]))
        index = apply(b, b.rng.choice(["add", "subtract"]), [index, by], type_, np.add)
    if b.rng.random() < 0.5:
        index = normalized(b, index, rows)
    if b.rng.random() < 0.15:
        target = Type(b.rng.choice(["i32", "i64", "ui8"]), ())
        if target != type_:
            index = apply(b, "convert", [index], target, lambda x: x)
    return index


MOST_TRIPS = 7

_HOLDS = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "NE": np.not_equal,
}
_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}


@dataclass(frozen=True)
class Count:
    """A loop goes on while `counter <direction> bound`.

    Attributes:
        start: Of the counter; a value from outside.
        trips: So many at most.
    """

    element: str
    start: Value
    step: int
    direction: str
    bound: int
    trips: int

    @property
    def type(self) -> Type:
        """The counter's."""
        return Type(self.element, ())

    def next(self, b: Builder, counter: Value) -> Value:
        """The counter of the next trip."""
        by = filled(b, self.type, abs(self.step))
        if self.step < 0:
            return apply(b, "subtract", [counter, by], self.type, np.subtract)
        order = [counter, by] if b.rng.random() < 0.8 else [by, counter]
        return apply(b, "add", order, self.type, np.add)

    def goes_on(self, b: Builder, counter: Value, bound: Value) -> Value:
        """Whether it lets the loop go on."""
        direction, sides = self.direction, [counter, bound]
        # Of an inner loop, whose numbers it knows, XLA takes 8 < i for i < 8.
        if b.rng.random() < 0.2 and b.depth < 2:
            direction, sides = _MIRRORED[direction], [bound, counter]
        return b.compare(direction, *sides)


def draw_count(b: Builder) -> Count:
    """A counter of any kind that ends soon.

    Raises:
        Unsuitable: None was found.
    """
    # In a block XLA may die of an unsigned number that counts, and lose what it has counted: from
    # 3 down to 0 it gives 2.
    elements = [name for name in INTEGERS if name in SIGNED or not b.depth]
    element = b.rng.choice(["i32", "i32", "i32", "i32", *elements])
    scalar = Type(element, ())
    if b.rng.random() < 0.12:
        # A start that nobody knows.
        bound = b.rng.randint(1, 4)
        ends = [filled(b, scalar, end) for end in (0, b.rng.randint(0, bound))]
        x = b.like(scalar)
        start = apply(b, "clamp", [ends[0], x, ends[1]], scalar, np.clip)
        return Count(element, start, 1, "LT", bound, bound)
    for _ in range(30):
        first, step, direction, bound = _drawn(b, element)
        trips = count_trips(element, first, step, direction, bound)
        if trips is not None:
            start = filled(b, scalar, first, constant=b.rng.random() < 0.8)
            return Count(element, start, step, direction, bound, trips)
    raise Unsuitable


def _drawn(b: Builder, element: str) -> tuple[int, int, str, int]:
    """Start, step, direction and bound."""
    low, high = integer_range(element)
    trips = b.rng.choice([0, 1, 1, 2, 2, 3, 4, 5, 6])
    kind = b.rng.random()
    if kind < 0.5:
        return 0, 1, "LT", trips
    if kind < 0.65:
        return trips, -1, "GT", 0
    if kind < 0.7 and low < 0:
        return trips - 1, -1, "GE", 0
    step = b.rng.choice([1, 2, 3, 5, -1, -2, -3])
    direction = b.rng.choice(list(_HOLDS))
    first = b.rng.choice([0, 1, 7, max(low, -3), low, low + 2, high, high - 2, high // 2])
    bound = first + step * trips + b.rng.choice([0, 0, 1, -1])
    # Beyond the type it wraps, as the counter does.
    return first, step, direction, (bound - low) % (high - low + 1) + low


def count_trips(element: str, first: int, step: int, direction: str, bound: int) -> int | None:
    """How many trips there are; None for too many."""
    dtype = NUMPY[element]
    counter, end = np.array(first, dtype), np.array(bound, dtype)
    by = np.array(step % (1 << 64), np.uint64).astype(dtype)
    for trips in range(MOST_TRIPS + 1):
        if not _HOLDS[direction](counter, end):
            return trips
        with np.errstate(all="ignore"):
            counter = np.asarray(counter + by, dtype)
    return None
