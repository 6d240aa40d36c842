"""while, in all forms that programs have."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from tools.fuzzing import branches, elementwise, indexing, movement, reductions, sorting
from tools.fuzzing.branches import some_steps
from tools.fuzzing.builder import MAX_SIZE, Builder, Steps, Unsuitable, has_grid
from tools.fuzzing.elements import ALL, BOOL, COMMON_FLOATS, COMPLEX, FLOATS, INTEGERS
from tools.fuzzing.indices import apply, filled
from tools.fuzzing.movement import moved
from tools.fuzzing.program import Grid, Quality, Type, Value, ints
from tools.fuzzing.states import (
    Count,
    Loop,
    State,
    draw_count,
    drawn_states,
    index_of,
    kept,
    next_of,
    with_row,
    zeros,
)

MOST_TRIPS_IN_ALL = 60


def while_(b: Builder) -> None:
    count = draw_count(b)
    if b.depth >= b.deepest or b.trips * max(count.trips, 1) > MOST_TRIPS_IN_ALL:
        raise Unsuitable
    counter, flag = State(count.start, count.start), None
    bound: State | Value | int = _bound(b, count)
    states = [
        counter,
        *(s for _ in range(b.rng.choice([0, 1, 1, 2, 2, 3])) for s in drawn_states(b, count)),
    ]
    if isinstance(bound, Value) and b.rng.random() < 0.5:
        bound = kept(bound)
        states.append(bound)
    ends = count.step in (1, -1) and count.direction != "NE"
    # A counter that is past its bound already would wrap in the trip that the flag allows.
    if ends and b.rng.random() < 0.12 and count.trips:
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
            results = b.step("optimization_barrier", results, [x.made for x in results])
        body = b.ended([*arguments, *late], results)
    likes = [*(state.like for state in states), *late]
    with b.block(likes) as arguments:
        loop = Loop(count, counter, dict(zip(states, arguments, strict=False)))
        going = loop.arguments[flag] if flag else _goes_on(b, loop, loop.at, bound)
        condition = b.ended(arguments, [going])
    made = [like.made for like in likes]
    scale = max(like.scale for like in likes)
    inits = [*(state.init for state in states), *(_first(b, like) for like in late)]
    b.step("while", inits, made, scale=scale, blocks=[condition, body])


def _body(b: Builder, loop: Loop, flag: State | None, bound: State | Value | int) -> list[Value]:
    """The steps of a body; what it returns."""
    for state, argument in loop.arguments.items():
        if state.rows and b.rng.random() < 0.75:
            b.visible.remove(argument)  # nobody else reads a stack
    for _ in range(b.rng.choice([0, 1, 1, 2])):
        b.attempt(b.rng.choice([partial(_row, loop=loop), partial(_as_data, counter=loop.at)]))
    some_steps(b, b.rng.choice([0, 1, 2, 3, 4, 5]))
    after = {state: next_of(b, loop, state) for state in loop.arguments if state is not flag}
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
        rows = max(loop.count.trips, 1)
        if b.rng.random() < 0.3 or math.prod(value.type.shape) * rows > MAX_SIZE:
            late[b.value(_argument_like(value))] = value
            continue
        dims = (rows, *value.type.shape)
        like = replace(_argument_like(value), type=Type(value.type.element, dims))
        stack = b.value(like)
        late[stack] = with_row(b, loop, stack, value)
    return late


def _argument_like(value: Value) -> Value:
    """What an argument is known to be that is next what a value of the body is."""
    if value.type.element not in FLOATS + COMPLEX:
        return value
    return replace(value, quality=min(value.quality, Quality.EQUAL), moderate=False)


def _first(b: Builder, like: Value) -> Value:
    """What such an argument is at first."""
    if like.type.element in FLOATS + COMPLEX or b.rng.random() < 0.7:
        return zeros(b, like.type)
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
        (x,) = moved(b, "slice", [x], ones, text)
        (x,) = moved(b, "reshape", [x], ())
    if x.type.element in BOOL:
        return x
    return b.compare(b.rng.choice(["LT", "GE", "NE", "EQ"]), x, b.like(x.type))


def _row(b: Builder, loop: Loop) -> None:
    """The row of a tensor that the counter counts."""
    x = b.operand(ALL, range(1, 5), quality=Quality.CLOSE)
    dims = x.type.shape
    if not dims[0]:
        raise Unsuitable
    index = index_of(b, loop, dims[0])
    zeros = [filled(b, index.type, 0) for _ in dims[1:]]
    sizes = (1, *dims[1:])
    text = f"slice_sizes = {ints(sizes)}"
    (row,) = moved(b, "dynamic_slice", [x], sizes, text, [index, *zeros])
    if b.rng.random() < 0.8:
        moved(b, "reshape", [row], dims[1:])


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
        b.spread(value, Type(element, b.shape()))


BODY: Steps = {
    elementwise.arithmetic: 5,
    elementwise.extreme: 2,
    elementwise.logical: 1,
    elementwise.shift: 1,
    elementwise.bit_count: 1,
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
    indexing.dynamic_slice: 1,
    indexing.dynamic_update_slice: 2,
    sorting.sort: 1,
    while_: 5,
    **branches.STEPS,
}
STEPS: Steps = {**BODY, while_: 200, branches.case: 10, branches.if_: 10, branches.call: 10}
