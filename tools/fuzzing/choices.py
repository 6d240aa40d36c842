"""case and if whose indices and predicates follow from ranges and constants: clamped, wrapped and
masked ones, one in another and in loops; and rows made of pieces at such indices, for stacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tools.fuzzing import branches, elementwise, indexing, loops, movement, reductions
from tools.fuzzing.builder import MAX_SIZE, Builder, Unsuitable, has_grid
from tools.fuzzing.elements import ALL, COMMON_FLOATS, INTEGERS, NUMPY
from tools.fuzzing.elementwise import _together
from tools.fuzzing.indices import apply, filled, leaf, normalized
from tools.fuzzing.movement import ints, is_dynamic_slice, moved
from tools.fuzzing.program import Grid, Quality, Type, Value, comparing
from tools.fuzzing.states import Count, Loop

I32, I1 = Type("i32", ()), Type("i1", ())
MOST_BRANCHES = 7
MOST_TRIPS = 6


def case(b: Builder) -> None:
    most = MOST_BRANCHES if not b.depth else 3
    branches.branch(b, "case", index(b), b.rng.randint(1, most), _fill)


def if_(b: Builder) -> None:
    branches.branch(b, "if", predicate(b), 2, _fill)


def _fill(b: Builder) -> None:
    """Another branch in a branch, more often than not."""
    if b.rng.random() < 0.55:
        b.attempt(b.rng.choice([case, if_]))


def stacking(b: Builder) -> None:
    """A scan over indices that stacks rows of pieces."""
    trips = b.rng.randint(1, MOST_TRIPS)
    start = filled(b, I32, 0)
    count = Count("i32", start, 1, "LT", trips, trips, exact=True)
    numbers = [b.rng.randint(-3, MOST_BRANCHES) for _ in range(trips)]
    places = leaf(b, Type("i32", (trips,)), np.array(numbers, np.int32))

    def rows(b: Builder, loop: Loop) -> Sequence[Value]:
        type_ = Type("i32", (1,))
        text = f"slice_sizes = {ints((1,))}"
        (place,) = b.step("dynamic_slice", [places, loop.at], [(type_, Quality.BITS, None)], text)
        at = apply(b, "reshape", [place], I32, lambda x: x.reshape(()))
        made = []
        for _ in range(b.rng.choice([1, 1, 2, 3])):
            if b.attempt(partial(b.rng.choice([one_hot, written, cut]), at=at)):
                (row,) = b.visible[-1:]
                made += [row] if math.prod(row.type.shape) * trips <= MAX_SIZE else []
        return list(dict.fromkeys(made))

    loops.loop_of(b, count, rows)


# -- indices ----------------------------------------------------------------------------------


def index(b: Builder) -> Value:
    """An i32 of which a range is known, most often."""
    made = b.rng.choice(_INDICES)(b)
    while b.rng.random() < 0.3:
        by = filled(b, I32, b.rng.randint(-3, 3))
        name, function = b.rng.choice(_ARITHMETIC)
        made = apply(b, name, [made, by], I32, function)
    return made


def _any(b: Builder) -> Value:
    """A number that nobody knows, or the counter of a loop, or one of a smaller type."""
    if b.rng.random() < 0.2:
        narrow = b.like(Type(b.rng.choice(["i8", "ui8", "i16", "i1"]), ()))
        return b.step("convert", [narrow], [(I32, Quality.BITS, None)])[0]
    return b.like(I32)


def _ends(b: Builder) -> list[int]:
    return sorted(b.rng.randint(-2, MOST_BRANCHES) for _ in range(2))


def _clamped(b: Builder) -> Value:
    low, high = (filled(b, I32, end) for end in _ends(b))
    return apply(b, "clamp", [low, _any(b), high], I32, lambda lo, x, hi: np.clip(x, lo, hi))


def _limited(b: Builder) -> Value:
    """On one side, or on both, as `jnp.clip` does it."""
    low, high = _ends(b)
    made = _any(b)
    steps = [("maximum", low, np.maximum), ("minimum", high, np.minimum)]
    for name, end, function in b.rng.sample(steps, b.rng.choice([1, 2, 2])):
        operands = [filled(b, I32, end), made]
        b.rng.shuffle(operands)
        made = apply(b, name, operands, I32, function)
    return made


def _masked(b: Builder) -> Value:
    mask = filled(b, I32, b.rng.choice([1, 3, 4, 6, 7]))
    return apply(b, "and", [_any(b), mask], I32, np.bitwise_and)


def _remainder(b: Builder) -> Value:
    """Of either sign; now and then brought back into 0 .. n - 1, as `jnp.remainder` does."""
    count = b.rng.randint(1, MOST_BRANCHES)
    made = apply(b, "remainder", [_any(b), filled(b, I32, count)], I32, np.fmod)
    return normalized(b, made, count) if b.rng.random() < 0.6 else made


def _fixed(b: Builder) -> Value:
    return filled(b, I32, b.rng.randint(-2, MOST_BRANCHES), constant=b.rng.random() < 0.7)


def _selected(b: Builder) -> Value:
    operands = [predicate(b, simple=True), index(b), index(b)]
    return apply(b, "select", operands, I32, np.where)


def _sign(b: Builder) -> Value:
    return apply(b, "sign", [_any(b)], I32, np.sign)


_INDICES: Sequence[Callable[[Builder], Value]] = (
    _clamped,
    _clamped,
    _limited,
    _limited,
    _masked,
    _remainder,
    _remainder,
    _fixed,
    _selected,
    _sign,
    _any,
)
_ARITHMETIC = (("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply))


# -- predicates -------------------------------------------------------------------------------


def predicate(b: Builder, simple: bool = False) -> Value:
    """A boolean that ranges decide, now and then, or one that nobody knows."""
    kind = b.rng.random()
    if kind < 0.15:
        made = b.like(I1)
    elif kind < 0.2:
        array = np.array(b.rng.random() < 0.5)
        (made,) = b.step("constant", [], [(I1, Quality.BITS, None)], array=array)
    elif kind < 0.3:
        (made,) = b.step("convert", [index(b)], [(I1, Quality.BITS, None)])
    else:
        made = _compared(b)
    if simple or b.rng.random() < 0.6:
        return made
    if b.rng.random() < 0.3:
        return b.step("not", [made], [(I1, Quality.BITS, None)])[0]
    operands = [made, predicate(b)]
    return b.step(b.rng.choice(["and", "or", "xor"]), operands, [(I1, Quality.BITS, None)])[0]


def _compared(b: Builder) -> Value:
    sides = [index(b), _fixed(b) if b.rng.random() < 0.7 else index(b)]
    b.rng.shuffle(sides)
    text = comparing(b.rng.choice(["LT", "LE", "GT", "GE", "EQ", "NE"]), "i32")
    return b.step("compare", sides, [(I1, Quality.BITS, None)], text)[0]


# -- rows -------------------------------------------------------------------------------------


def one_hot(b: Builder, at: Value | None = None) -> None:
    """jnp.zeros(n).at[i].set(x): what environments give as observations."""
    element = b.rng.choice((*INTEGERS, *COMMON_FLOATS, "i1"))
    length = b.rng.randint(1, 8)
    rest = b.shape(b.rng.choice([0, 0, 0, 1]))
    grid = Grid(0, 0) if has_grid(element) else None
    zero = np.zeros((length, *rest), NUMPY[element])
    type_ = Type(element, zero.shape)
    (x,) = b.step("constant", [], [(type_, Quality.BITS, grid)], array=zero)
    _written(b, x, at)


def written(b: Builder, at: Value | None = None) -> None:
    """x.at[i].set(y) and dynamic_update_slice."""
    x = b.operand(ALL, range(1, 4), quality=Quality.CLOSE)
    if 0 in x.type.shape:
        raise Unsuitable
    _written(b, x, at)


def _written(b: Builder, x: Value, at: Value | None) -> None:
    length, *rest = x.type.shape
    at = at or index(b)
    if b.rng.random() < 0.6:
        at = normalized(b, at, length)
    if b.rng.random() < 0.5:
        _scattered(b, x, at)
        return
    size = b.rng.choice([1, 1, b.rng.randint(1, length)])
    update = b.like(Type(x.type.element, (size, *rest)), Quality.CLOSE)
    starts = [at, *(filled(b, I32, 0) for _ in rest)]
    moved(b, "dynamic_update_slice", [x, update], x.type.shape, indices=starts)


def _scattered(b: Builder, x: Value, at: Value) -> None:
    _, *rest = x.type.shape
    update = b.like(Type(x.type.element, tuple(rest)), Quality.CLOSE)
    quality, grid, _ = _together(x, update)
    quality = min(quality, Quality.EQUAL)  # the runtime's Where drops the sign of a zero
    vector = apply(b, "reshape", [at], Type("i32", (1,)), lambda i: i.reshape(1))
    text = (
        f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims ="
        f" {list(range(len(rest)))}, inserted_window_dims = [0],"
        " scatter_dims_to_operand_dims = [0]>, unique_indices = true, indices_are_sorted = true"
    )
    region = indexing.scatter_body(["set"], [x.type.element])
    scale = max(x.scale, update.scale)
    b.step("scatter", [x, vector, update], [(x.type, quality, grid)], text, region, scale=scale)


def cut(b: Builder, at: Value | None = None) -> None:
    """dynamic_slice at such an index."""
    x = b.operand(ALL, range(1, 4), quality=Quality.CLOSE)
    if is_dynamic_slice(b, x) or 0 in x.type.shape:
        raise Unsuitable
    length, *rest = x.type.shape
    size = b.rng.randint(1, length)
    starts = [at or index(b), *(filled(b, I32, 0) for _ in rest)]
    text = f"slice_sizes = {ints((size, *rest))}"
    moved(b, "dynamic_slice", [x], (size, *rest), text, starts)


BODY = {
    case: 5,
    if_: 5,
    loops.while_: 2,
    stacking: 3,
    one_hot: 3,
    written: 3,
    cut: 2,
    branches.call: 1,
    elementwise.arithmetic: 3,
    elementwise.compare: 1,
    elementwise.select: 1,
    elementwise.convert: 1,
    elementwise.clamp: 1,
    movement.concatenate: 1,
    movement.broadcast_in_dim: 1,
    movement.reshape: 1,
    reductions.reduce: 1,
    indexing.gather: 1,
}
STEPS = {**BODY, case: 20, if_: 15, loops.while_: 10, stacking: 15}
