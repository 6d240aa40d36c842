"""while, case, if and calls: blocks that read what is around them.

What a loop carries keeps the quality and the grid that its argument is declared to have: a value
of the body is brought back onto that grid before it is returned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from fuzzing import elementwise, indexing, movement, reductions, sorting
from fuzzing.builder import MAX_SIZE, Builder, Unsuitable, has_grid
from fuzzing.counting import Count, draw_count
from fuzzing.elements import (
    ALL,
    BOOL,
    COMMON_FLOATS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMPY,
    SMALL_FLOATS,
    SMALL_INTEGERS,
    integer_range,
)
from fuzzing.elementwise import _together
from fuzzing.indices import apply, filled, normalized
from fuzzing.movement import ints, start_types
from fuzzing.program import Block, Grid, Quality, Type, Value

DEEPEST = 3
MOST_TRIPS_IN_ALL = 60
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


# -- while ------------------------------------------------------------------------------------


def while_(b: Builder) -> None:
    count = draw_count(b)
    if b.depth >= DEEPEST or b.trips * max(count.trips, 1) > MOST_TRIPS_IN_ALL:
        raise Unsuitable
    counter, flag = State(count.start, count.start), None
    bound: State | Value | int = _bound(b, count)
    states = [
        counter,
        *(s for _ in range(b.rng.choice([0, 1, 1, 2, 2, 3])) for s in _drawn(b, count)),
    ]
    if isinstance(bound, Value) and b.rng.random() < 0.5:
        bound = _kept(bound)
        states.append(bound)
    if count.step in (1, -1) and count.direction != "NE" and b.rng.random() < 0.12:
        # Another state says whether the loop goes on: so after each trip, anything before it.
        first = b.like(Type("i1", ()))
        flag = State(first, first)
        states.append(flag)
    b.rng.shuffle(states)
    with b.block([state.like for state in states]) as arguments, b.repeated(max(count.trips, 1)):
        loop = Loop(count, counter, dict(zip(states, arguments, strict=True)))
        after = _body(b, loop, flag, bound)
        late = _late(b, loop)
        results = [*after.values(), *late.values()]
        if b.rng.random() < 0.1:
            results = b.step("optimization_barrier", results, list(map(_as_result, results)))
        body = b.ended([*arguments, *late], results)
    likes = [*(state.like for state in states), *late]
    with b.block(likes) as arguments:
        loop = Loop(count, counter, dict(zip(states, arguments, strict=False)))
        going = loop.arguments[flag] if flag else _goes_on(b, loop, loop.at, bound)
        condition = b.ended(arguments, [going])
    made = [_as_result(like) for like in likes]
    scale = max(like.scale for like in likes)
    inits = [*(state.init for state in states), *(_first(b, like) for like in late)]
    _visible(b, b.step("while", inits, made, scale=scale, blocks=[condition, body]))


def _body(b: Builder, loop: Loop, flag: State | None, bound: State | Value | int) -> list[Value]:
    """The steps of a body; what it returns."""
    for state, argument in loop.arguments.items():
        if state.rows and b.rng.random() < 0.75:
            b.visible.remove(argument)  # nobody else reads a stack
    for _ in range(b.rng.choice([0, 1, 1, 2])):
        b.attempt(b.rng.choice([partial(_row, loop=loop), partial(_as_data, counter=loop.at)]))
    _some_steps(b, b.rng.choice([0, 1, 2, 3, 4, 5]))
    after = {state: _after(b, loop, state) for state in loop.arguments if state is not flag}
    if flag:
        after[flag] = _goes_on(b, loop, after[loop.counter], bound)
    return {state: after[state] for state in loop.arguments}


def _late(b: Builder, loop: Loop) -> dict[Value, Value]:
    """Further arguments that nobody reads, with what they are next: values of the body, of the
    last trip or of all trips in a stack."""
    computed = {index for step in b.steps if step.operands for index in step.results}
    own = [value for value in b.visible if value.index in computed]
    late = {}
    for value in b.rng.sample(own, min(len(own), b.rng.choice([0, 1, 2, 3]))):
        like = replace(value, quality=min(value.quality, Quality.EQUAL), moderate=False)
        if value.type.element not in FLOATS + COMPLEX:
            like = value
        rows = max(loop.count.trips, 1)
        if b.rng.random() < 0.3 or math.prod(value.type.shape) * rows > MAX_SIZE:
            late[b.value(like)] = value
            continue
        like = replace(like, type=Type(value.type.element, (rows, *value.type.shape)))
        stack = b.value(like)
        late[stack] = _with_row(b, loop, stack, value)
    return late


def _first(b: Builder, like: Value) -> Value:
    """What such an argument is at first."""
    if like.type.element in FLOATS + COMPLEX or b.rng.random() < 0.7:
        return _zeros(b, like.type)
    return b.like(like.type)


def _goes_on(b: Builder, loop: Loop, counter: Value, bound: State | Value | int) -> Value:
    """Whether a loop goes on, which may depend on data, too."""
    if isinstance(bound, int):
        bound = filled(b, loop.count.type, bound)
    elif isinstance(bound, State):
        bound = loop.arguments[bound]
    going = loop.count.goes_on(b, counter, bound)
    if b.rng.random() < 0.75:
        return going
    also = _predicate(b)
    order = [going, also] if b.rng.random() < 0.5 else [also, going]
    return b.step("and", order, [(Type("i1", ()), Quality.BITS, None)])[0]


def _as_result(value: Value) -> tuple[Type, Quality, Grid | None]:
    return value.type, value.quality, value.grid


def _bound(b: Builder, count: Count) -> Value | int:
    """A number in the regions, or a value from outside."""
    if b.rng.random() < 0.5:
        return count.bound
    return filled(b, count.type, count.bound, constant=b.rng.random() < 0.5)


def _predicate(b: Builder) -> Value:
    x = b.operand(INTEGERS + BOOL + COMMON_FLOATS)
    if 0 in x.type.shape:
        raise Unsuitable
    if x.type.shape:
        ones = [1] * len(x.type.shape)
        starts = [b.rng.randrange(dim) for dim in x.type.shape]
        text = (
            f"start_indices = {ints(starts)}, limit_indices = {ints([i + 1 for i in starts])},"
            f" strides = {ints(ones)}"
        )
        one = [(Type(x.type.element, tuple(ones)), x.quality, x.grid)]
        (x,) = b.step("slice", [x], one, text)
        (x,) = b.step("reshape", [x], [(Type(x.type.element, ()), x.quality, x.grid)])
    if x.type.element in BOOL:
        return x
    y = b.like(x.type)
    kind = elementwise._comparison(x.type.element)
    direction = b.rng.choice(["LT", "GE", "NE", "EQ"])
    text = (
        f"comparison_direction = #stablehlo<comparison_direction {direction}>,"
        f" compare_type = #stablehlo<comparison_type {kind}>"
    )
    return b.step("compare", [x, y], [(Type("i1", ()), Quality.BITS, None)], text)[0]


def _some_steps(b: Builder, count: int) -> None:
    made = 0
    for _ in range(4 * count):
        (step,) = b.rng.choices(list(BODY), list(BODY.values()))
        made += b.attempt(step)
        if made == count:
            break


def _row(b: Builder, loop: Loop) -> None:
    """The row of a tensor that the counter counts."""
    x = b.operand(ALL, range(1, 5), quality=Quality.CLOSE)
    dims = x.type.shape
    if not dims[0]:
        raise Unsuitable
    index = _index(b, loop, dims[0])
    zeros = [filled(b, index.type, 0) for _ in dims[1:]]
    sizes = (1, *dims[1:])
    made = [(Type(x.type.element, sizes), x.quality, x.grid)]
    text = f"slice_sizes = {ints(sizes)}"
    operands = [x, index, *zeros]
    (row,) = b.step("dynamic_slice", operands, made, text, scale=x.scale, moderate=x.moderate)
    if b.rng.random() < 0.8:
        made = [(Type(x.type.element, dims[1:]), x.quality, x.grid)]
        b.step("reshape", [row], made, scale=x.scale, moderate=x.moderate)


def _as_data(b: Builder, counter: Value) -> None:
    """The counter as a number to compute with."""
    element = b.rng.choice((*INTEGERS, "f32", "f64"))
    type_ = Type(element, ())
    value = counter
    if element != counter.type.element:
        # Small, so that every float type holds it.
        three = filled(b, counter.type, 3)
        value = apply(b, "and", [counter, three], counter.type, np.bitwise_and)
        made = [(type_, Quality.BITS, Grid(3, 0) if has_grid(element) else None)]
        (value,) = b.step("convert", [value], made)
    if b.rng.random() < 0.5:
        shape = b.shape()
        made = [(Type(element, shape), value.quality, value.grid)]
        b.step("broadcast_in_dim", [value], made, "broadcast_dimensions = array<i64>")


def _index(b: Builder, loop: Loop, rows: int) -> Value:
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


# -- what a loop carries ----------------------------------------------------------------------


def _drawn(b: Builder, count: Count) -> list[State]:
    """A state, or two that change places."""
    kind = b.rng.random()
    if kind < 0.35:
        return [_stack(b, count)]
    x = _any(b)
    if kind < 0.5:
        return [_kept(x)]
    like = _declared(b, x)
    if kind < 0.6:
        y = b.like(x.type, Quality.CLOSE)
        quality, grid, _ = _together(like, _declared(b, y))
        scale = max(x.scale, y.scale)
        like = replace(like, quality=quality, grid=grid, scale=scale)
        pair = [State(x, like), State(y, like)]
        pair[0].partner.append(pair[1])
        pair[1].partner.append(pair[0])
        return pair
    return [State(x, like)]


def _kept(x: Value) -> State:
    """A state that stays what it is."""
    state = State(x, x)
    state.partner.append(state)
    return state


def _after(b: Builder, loop: Loop, state: State) -> Value:
    """What a state is next."""
    if state is loop.counter:
        return loop.count.next(b, loop.at)
    if state.partner:
        return loop.arguments[state.partner[0]]
    if state.rows:
        row = _row_for(b, state.like, state.like.type.shape[1:])
        return _with_row(b, loop, loop.arguments[state], row)
    return _next(b, loop.arguments[state], state.like)


def _any(b: Builder) -> Value:
    choice = b.rng.random()
    elements = SMALL_INTEGERS if choice < 0.03 else ALL + SMALL_FLOATS if choice < 0.12 else ALL
    return b.operand(elements, range(5), quality=Quality.CLOSE)


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


def _within(grid: Grid | None, around: Grid | None) -> bool:
    if around is None:
        return True
    return grid is not None and grid.bound <= around.bound and grid.bits <= around.bits


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
    if _within(value.grid, grid):
        return value
    if value.grid is None or grid is None or element not in COMMON_FLOATS:
        return otherwise
    if value.grid.bits > grid.bits:
        floored = Grid(math.ceil(value.grid.bound), 0)
        (value,) = b.step("floor", [value], [(value.type, Quality.EQUAL, floored)])
        assert value.grid is not None
    if value.grid.bound > grid.bound:
        ends = [_number(b, element, end) for end in (-grid.bound, grid.bound)]
        inside = Grid(grid.bound, value.grid.bits)
        operands = [ends[0], value, ends[1]]
        (value,) = b.step("clamp", operands, [(value.type, Quality.EQUAL, inside)])
    return value


def _number(b: Builder, element: str, number: float) -> Value:
    array = np.array(number).astype(NUMPY[element])
    return b.step("constant", [], [(Type(element, ()), Quality.BITS, None)], array=array)[0]


def _stack(b: Builder, count: Count) -> State:
    """A buffer of which each trip writes a row: all of them, in order, or others."""
    element = b.rng.choice(ALL + SMALL_FLOATS)
    row = b.shape(b.rng.choice([0, 0, 1, 1, 2]))
    rows = count.trips if b.rng.random() < 0.75 else b.rng.randint(1, MOST_ROWS)
    if math.prod(row) * rows > MAX_SIZE or not rows:
        raise Unsuitable
    type_ = Type(element, (rows, *row))
    init = _zeros(b, type_) if b.rng.random() < 0.7 else b.like(type_)
    return State(init, _declared(b, init), rows)


def _with_row(b: Builder, loop: Loop, stack: Value, row: Value) -> Value:
    """A stack with another row written."""
    rows, *dims = stack.type.shape
    index = _index(b, loop, rows)
    made = [_as_result(stack)]
    if b.rng.random() < 0.3:
        vector = Type(index.type.element, (1,))
        index = apply(b, "reshape", [index], vector, lambda x: x.reshape(1))
        text = (
            f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims ="
            f" {list(range(len(dims)))}, inserted_window_dims = [0],"
            " scatter_dims_to_operand_dims = [0]>, unique_indices = true"
        )
        region = indexing.scatter_body(["set"], [stack.type.element])
        return b.step("scatter", [stack, index, row], made, text, region, scale=stack.scale)[0]
    sized = Type(stack.type.element, (1, *dims))
    widened = [(sized, row.quality, row.grid)]
    if b.rng.random() < 0.5:
        text = f"broadcast_dimensions = {ints(range(1, len(dims) + 1))}"
        (row,) = b.step("broadcast_in_dim", [row], widened, text, scale=row.scale)
    else:
        (row,) = b.step("reshape", [row], widened, scale=row.scale)
    operands = [stack, row, index, *(filled(b, index.type, 0) for _ in dims)]
    return b.step("dynamic_update_slice", operands, made, scale=stack.scale)[0]


def _row_for(b: Builder, like: Value, row: tuple[int, ...]) -> Value:
    """A row that fits into the buffer."""
    type_ = Type(like.type.element, row)
    made = b.like(type_, max(like.quality, Quality.EQUAL))
    fits = replace(like, type=type_)
    back = _brought_back(b, made, fits, made)
    return back if _within(back.grid, like.grid) else b.leaf(type_, "grid")


def _zeros(b: Builder, type_: Type) -> Value:
    """As JAX begins a stack."""
    grid = Grid(0, 0) if has_grid(type_.element) else None
    zero = np.zeros((), NUMPY[type_.element])
    (value,) = b.step("constant", [], [(Type(type_.element, ()), Quality.BITS, grid)], array=zero)
    text = "broadcast_dimensions = array<i64>"
    return b.step("broadcast_in_dim", [value], [(type_, Quality.BITS, grid)], text)[0]


# -- branches and calls -----------------------------------------------------------------------


def case(b: Builder) -> None:
    index = b.like(Type("i32", ()))
    if b.rng.random() < 0.4:
        index = filled(b, index.type, b.rng.randint(-2, 6), constant=b.rng.random() < 0.3)
    _branches(b, "case", index, b.rng.choice([1, 2, 2, 3, 4, 5]))


def if_(b: Builder) -> None:
    _branches(b, "if", b.like(Type("i1", ())), 2)


def _branches(b: Builder, name: str, operand: Value, count: int) -> None:
    if b.depth >= DEEPEST:
        raise Unsuitable
    models = [_any(b) for _ in range(b.rng.choice([1, 1, 2, 3]))]
    blocks: list[Block] = []
    returned: list[list[Value]] = []
    for _ in range(count):
        with b.block([]):
            _some_steps(b, b.rng.choice([0, 1, 1, 2]))
            values = [b.like(model.type, Quality.CLOSE) for model in models]
            blocks.append(b.ended([], values))
            returned.append(values)
    together = [_together(*values) for values in zip(*returned, strict=True)]
    made = [
        (model.type, quality, grid)
        for model, (quality, grid, _) in zip(models, together, strict=True)
    ]
    scale = max(value.scale for values in returned for value in values)
    _visible(b, b.step(name, [operand], made, scale=scale, blocks=blocks))


def call(b: Builder) -> None:
    if b.depth >= DEEPEST:
        raise Unsuitable
    operands = [_any(b) for _ in range(b.rng.choice([0, 1, 2, 3]))]
    symbol = f"f{len(b.values)}"
    with b.block(operands, isolated=True) as arguments:
        _some_steps(b, b.rng.choice([1, 2, 3]))
        if not b.visible:
            raise Unsuitable
        results = b.rng.choices(b.visible, k=b.rng.choice([1, 1, 2]))
        block = b.ended(arguments, results, symbol)
    made = [_as_result(value) for value in results]
    scale = max(value.scale for value in results)
    _visible(b, b.step("func.call", operands, made, scale=scale, blocks=[block]))
    if b.rng.random() < 0.3:
        again = [_in_place_of(b, operand) for operand in operands]
        _visible(b, b.step("func.call", again, made, scale=scale, blocks=[block]))


def _in_place_of(b: Builder, x: Value) -> Value:
    """Another value for which everything holds that holds for x."""
    found = [
        value
        for value in b.visible
        if value.type == x.type
        and value.quality >= x.quality
        and _within(value.grid, x.grid)
        and value.scale <= x.scale
        and value.moderate >= x.moderate
    ]
    return b.rng.choice(found)


def _visible(b: Builder, made: Sequence[Value]) -> None:
    if not b.depth:
        indexing._visible(b, made)


BODY = {
    elementwise.arithmetic: 5,
    elementwise.extreme: 2,
    elementwise.logical: 1,
    elementwise.bits: 1,
    elementwise.sign_like: 1,
    elementwise.rounding: 1,
    elementwise.compare: 2,
    elementwise.select: 3,
    elementwise.clamp: 1,
    elementwise.convert: 2,
    elementwise.complex_parts: 1,
    **movement.STEPS,
    reductions.reduce: 2,
    reductions.arg_extreme: 1,
    indexing.gather: 2,
    indexing.scatter: 2,
    indexing.dynamic_update_slice: 2,
    sorting.sort: 1,
    while_: 5,
    case: 2,
    if_: 2,
    call: 2,
}
STEPS = {**BODY, while_: 200, case: 10, if_: 10, call: 10}
