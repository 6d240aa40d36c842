"""Elementwise steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tools.fuzzing.builder import Builder, Unsuitable, fits
from tools.fuzzing.elements import (
    BOOL,
    COMMON_FLOATS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    PART,
    SIGNED,
    SMALL_FLOATS,
    SMALL_INTEGERS,
    WIDTH,
    integer_range,
)
from tools.fuzzing.program import Grid, Quality, Type, Value, comparing

REAL = INTEGERS + COMMON_FLOATS
NUMBERS = REAL + COMPLEX

_UNARY_FLOAT = ["cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one",
                "logistic", "rsqrt", "sine", "sqrt", "tan", "tanh"]  # fmt: skip
_UNARY_COMPLEX = ["cosine", "exponential", "exponential_minus_one", "log", "log_plus_one",
                  "logistic", "rsqrt", "sine", "sqrt", "tan", "tanh", "abs", "sign"]  # fmt: skip
_ROUNDING = ["ceil", "floor", "round_nearest_afz", "round_nearest_even"]


def _grid2(x: Value, y: Value, name: str) -> Grid | None:
    if x.grid is None or y.grid is None:
        return None
    one, two = x.grid, y.grid
    if name == "multiply":
        terms = 2 if x.type.element in COMPLEX else 1
        return Grid(terms * one.bound * two.bound, one.bits + two.bits)
    bound = one.bound + two.bound if name in ("add", "subtract") else max(one.bound, two.bound)
    return Grid(bound, max(one.bits, two.bits))


def arithmetic(b: Builder) -> None:
    name = b.rng.choice(["add", "subtract", "multiply"])
    elements = NUMBERS if name == "subtract" or b.rng.random() < 0.9 else BOOL
    x = b.operand(elements)
    y = b.like(x.type)
    if name == "add" and elements is BOOL and not (b.is_input(x) and b.is_input(y)):
        # XLA folds true + true of values it knows to false, and computes true at run time.
        raise Unsuitable
    if name == "multiply":
        x, y = _away_from_edges(b, x), _away_from_edges(b, y)
    result = b.result(x.type.element, x.type.shape, _grid2(x, y, name), inexact=True)
    b.step(name, [x, y], [result])


def extreme(b: Builder) -> None:
    name = b.rng.choice(["maximum", "minimum"])
    x = b.operand(REAL + BOOL)
    y = b.like(x.type)
    if b.is_result_of("clamp", x) or b.is_result_of("clamp", y):
        # XLA takes max(low, clamp(low, x, high)) for the latter, where high may be less than low.
        raise Unsuitable
    result = b.result(x.type.element, x.type.shape, _grid2(x, y, name))
    b.step(name, [x, y], [result])


def division(b: Builder) -> None:
    name = b.rng.choice(["divide", "divide", "remainder"])
    _inexact_pair(b, name, NUMBERS if name == "divide" else REAL)


def power(b: Builder) -> None:
    _inexact_pair(b, "power", NUMBERS)


def _inexact_pair(b: Builder, name: str, elements: Sequence[str]) -> None:
    x = b.operand(elements, quality=Quality.BITS)
    # Newer XLA takes x / x for 1 without a look at x, also where they are equal constants. But it
    # folds 0 / 0 to -1 where these are scalars.
    if name == "divide" and x.type.element in INTEGERS and b.is_result_of("constant", x):
        raise Unsuitable
    y = b.leaf(x.type) if name == "divide" else b.like(x.type, Quality.BITS)
    if name == "power" and x.type.element in INTEGERS:
        # XLA reads six bits of an exponent, and takes large unsigned ones for negative. It takes
        # power(0, -1) for 1 / 0, which is -1, or, where it folds constants, for 0.
        y = b.leaf(x.type, "exponent")
    if x.type.element in COMPLEX:
        x, y = _away_from_edges(b, x), _away_from_edges(b, y)
    elif name == "divide" and x.type.element in FLOATS and not b.is_input(y):
        # XLA and the model multiply by 1 / y if y is a constant, even if that is no normal number.
        y = b.leaf(x.type, "moderate")
    type_, quality, grid = b.result(x.type.element, x.type.shape, None, inexact=True)
    if name == "power":
        quality = Quality.CLOSE  # XLA takes a / power(b, c) for a * power(b, -c), of integers too
    b.step(name, [x, y], [(type_, quality, grid)])


def _away_from_edges(b: Builder, x: Value) -> Value:
    """Complex numbers on a grid: with infinities and NaN every formula gives something else."""
    return x if x.grid is not None or x.type.element not in COMPLEX else b.leaf(x.type, "grid")


def _same_type(
    names: Sequence[str], elements: Sequence[str], count: int
) -> Callable[[Builder], None]:
    """A step that makes integers or booleans of so many operands of their type."""

    def make(b: Builder) -> None:
        name = b.rng.choice(names)
        if name == "count_leading_zeros" and b.depth:
            raise Unsuitable  # XLA folds that of -1 in i16 to -48
        x = b.operand(elements)
        operands = [x, *(b.like(x.type) for _ in range(count - 1))]
        b.step(name, operands, [b.result(x.type.element, x.type.shape, None)])

    return make


_SHIFTS = ("shift_left", "shift_right_arithmetic", "shift_right_logical")
logical = _same_type(("and", "or", "xor"), INTEGERS + BOOL, 2)
logical_not = _same_type(("not",), INTEGERS + BOOL, 1)
shift = _same_type(_SHIFTS, INTEGERS, 2)
bit_count = _same_type(("popcnt", "count_leading_zeros"), INTEGERS, 1)


def sign_like(b: Builder) -> None:
    name = b.rng.choice(["abs", "negate", "sign"])
    elements = SIGNED + COMMON_FLOATS + (INTEGERS + COMPLEX if name == "negate" else ())
    x = b.operand(elements)
    grid = Grid(1, 0) if name == "sign" and x.grid else x.grid
    b.step(name, [x], [b.result(x.type.element, x.type.shape, grid)])


def rounding(b: Builder) -> None:
    x = b.operand(COMMON_FLOATS)
    grid = None if x.grid is None else Grid(math.ceil(x.grid.bound), 0)
    b.step(b.rng.choice(_ROUNDING), [x], [b.result(x.type.element, x.type.shape, grid)])


def transcendental(b: Builder) -> None:
    is_complex = b.rng.random() < 0.15
    name = b.rng.choice(_UNARY_COMPLEX if is_complex else _UNARY_FLOAT)
    x = b.operand(COMPLEX if is_complex else COMMON_FLOATS, quality=Quality.BITS)
    x = _away_from_edges(b, x)
    element = PART[x.type.element] if name == "abs" and is_complex else x.type.element
    b.step(name, [x], [b.result(element, x.type.shape, None, inexact=True)])


def is_finite(b: Builder) -> None:
    x = b.operand(COMMON_FLOATS)
    b.step("is_finite", [x], [b.result("i1", x.type.shape, None)])


def compare(b: Builder) -> None:
    x = b.operand()
    element = x.type.element
    total = element in COMMON_FLOATS and b.rng.random() < 0.15
    if total and x.quality < Quality.BITS:
        raise Unsuitable
    y = b.like(x.type, Quality.BITS if total else Quality.EQUAL)
    names = ["EQ", "NE"] if element in COMPLEX else ["EQ", "NE", "LT", "LE", "GT", "GE"]
    text = comparing(b.rng.choice(names), element)
    if total:
        text = text.replace("FLOAT", "TOTALORDER")
    elif b.rng.random() < 0.3:
        text = text.partition(",")[0]
    b.step("compare", [x, y], [b.result("i1", x.type.shape, None)], text)


def _together(*values: Value) -> tuple[Quality, Grid | None, bool]:
    """Quality, grid and tameness of a choice among values."""
    grids = [value.grid for value in values if value.grid is not None]
    grid = None
    if len(grids) == len(values):
        grid = Grid(max(g.bound for g in grids), max(g.bits for g in grids))
    return (
        min(value.quality for value in values),
        grid,
        all(value.moderate for value in values),
    )


def select(b: Builder) -> None:
    x = b.operand(quality=Quality.CLOSE)
    y = b.like(x.type, Quality.CLOSE)
    scalar = b.rng.random() < 0.2
    predicate = b.like(Type("i1", () if scalar else x.type.shape))
    quality, grid, moderate = _together(x, y)
    if x.type.element in FLOATS + COMPLEX:
        quality = min(quality, Quality.EQUAL)  # the runtime's Where drops the sign of a zero
    scale = max(x.scale, y.scale)
    b.step("select", [predicate, x, y], [(x.type, quality, grid)], scale=scale, moderate=moderate)


def clamp(b: Builder) -> None:
    x = b.operand(REAL)
    low, high = (
        b.like(Type(x.type.element, () if b.rng.random() < 0.4 else x.type.shape)) for _ in range(2)
    )
    _, grid, _ = _together(low, x, high)
    b.step("clamp", [low, x, high], [b.result(x.type.element, x.type.shape, grid)])


def convert(b: Builder) -> None:
    pool = NUMBERS + BOOL
    odd = b.rng.random() < 0.2
    x = b.operand(pool if odd or b.rng.random() < 0.9 else SMALL_FLOATS)
    target = b.rng.choice(SMALL_FLOATS + SMALL_INTEGERS if odd else pool)
    source = x.type.element
    if source in COMPLEX and target not in COMPLEX:
        raise Unsuitable
    if target in SMALL_INTEGERS and source not in INTEGERS:
        raise Unsuitable  # the way of saturation would be XLA's guess
    grid = _converted_grid(x, target)
    widens = source in FLOATS and target in FLOATS and WIDTH[target] > WIDTH[source]
    made = b.result(target, x.type.shape, grid, inexact=not widens)
    (value,) = b.step("convert", [x], [made])
    if target in SMALL_INTEGERS:
        b.step("convert", [value], [b.result("i32", x.type.shape, None)])


def _converted_grid(x: Value, target: str) -> Grid | None:
    if target in INTEGERS + BOOL + SMALL_INTEGERS:
        return None
    if x.grid is not None:
        return x.grid
    if x.type.element == "i1":
        return Grid(1, 0)
    if x.type.element in FLOATS + COMPLEX:
        return None
    low, high = integer_range(x.type.element)
    grid = Grid(max(-low, high), 0)
    return grid if fits(grid, target) else None


def bitcast(b: Builder) -> None:
    x = b.operand(INTEGERS + COMMON_FLOATS, quality=Quality.BITS)
    width = WIDTH[x.type.element]
    target = b.rng.choice([name for name in INTEGERS if WIDTH[name] == width])
    shape = x.type.shape
    choice = b.rng.random()
    if choice < 0.25 and width > 8:
        target = b.rng.choice([name for name in INTEGERS if WIDTH[name] < width])
        shape = (*shape, width // WIDTH[target])
    elif choice < 0.5 and shape and shape[-1] > 1:
        wider = [name for name in INTEGERS if WIDTH[name] == width * shape[-1]]
        if not wider:
            raise Unsuitable
        target, shape = b.rng.choice(wider), shape[:-1]
    b.step("bitcast_convert", [x], [b.result(target, shape, None)])


def complex_parts(b: Builder) -> None:
    name = b.rng.choice(["complex", "real", "imag"])
    if name == "complex":
        x = b.operand(("f32", "f64"))
        y = b.like(x.type)
        quality, grid, moderate = _together(x, y)
        element = f"complex<{x.type.element}>"
        made = [(Type(element, x.type.shape), quality, grid)]
        b.step(name, [x, y], made, moderate=moderate)
        return
    x = b.operand(COMPLEX)
    made = [(Type(PART[x.type.element], x.type.shape), x.quality, x.grid)]
    b.step(name, [x], made, moderate=x.moderate)


def reduce_precision(b: Builder) -> None:
    x = b.operand(COMMON_FLOATS)
    exponent, mantissa = b.rng.choice([(5, 10), (8, 7), (4, 3), (8, 23), (5, 2), (3, 4), (8, 0)])
    made = b.result(x.type.element, x.type.shape, None, inexact=True)
    text = f"exponent_bits = {exponent} : i32, mantissa_bits = {mantissa} : i32"
    b.step("reduce_precision", [x], [made], text)


def atan2(b: Builder) -> None:
    _inexact_pair(b, "atan2", COMMON_FLOATS)


STEPS = {
    arithmetic: 6,
    extreme: 3,
    division: 2,
    power: 1,
    atan2: 1,
    logical: 2,
    logical_not: 1,
    shift: 1,
    bit_count: 1,
    sign_like: 2,
    rounding: 2,
    transcendental: 4,
    is_finite: 1,
    compare: 4,
    select: 4,
    clamp: 2,
    convert: 6,
    bitcast: 2,
    complex_parts: 2,
    reduce_precision: 1,
}
