"""Elementwise steps, those of CHLO among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tools.fuzzing.builder import Builder, Steps, Unsuitable, fits
from tools.fuzzing.elements import (
    BOOL,
    COMMON_FLOATS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    PART,
    REAL,
    SIGNED,
    SMALL_FLOATS,
    SMALL_INTEGERS,
    WIDTH,
    integer_range,
)
from tools.fuzzing.program import Grid, Quality, Type, Value, comparing, together

NUMBERS = REAL + COMPLEX

# -- ops that take one type ----------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """Ops alike.

    Attributes:
        names: Separated by spaces.
        elements: The element types that they take.
        operands: How many, all of one type.
        rounds: Whether floats on no grid are rounded.
        result: Element type of the result; "" for the operands' own.
        quality: What the operands must be.
        scale: Near their zeros XLA is no better than this.
    """

    names: str
    elements: tuple[str, ...]
    operands: int
    rounds: bool = False
    result: str = ""
    quality: Quality = Quality.EQUAL
    scale: float = 0.0

    def __call__(self, b: Builder) -> None:
        """Makes a step of one of them."""
        name = b.rng.choice(self.names.split())
        values = [b.operand(self.elements, quality=self.quality)]
        values += [b.like(values[0].type, self.quality) for _ in range(self.operands - 1)]
        if _is_xlas_own(b, name, values):
            raise Unsuitable
        if self.rounds and name not in ("add", "subtract"):
            values = [away_from_edges(b, value) for value in values]
        element, shape = values[0].type.element, values[0].type.shape
        if name == "abs" and element in COMPLEX:
            element = PART[element]
        grid = grid_of(name, *values)
        made = b.result(self.result or element, shape, grid, inexact=self.rounds)
        b.step(name, values, [made], scale=self.scale)


def _is_xlas_own(b: Builder, name: str, values: Sequence[Value]) -> bool:
    """Whether XLA gives something else than the specification: it takes max(low, clamp(low, x,
    high)) for the latter, where high may be less than low; in a block it counts 48 zeros less."""
    if name in ("maximum", "minimum"):
        return any(b.is_result_of("clamp", value) for value in values)
    return name == "count_leading_zeros" and b.depth > 0


def grid_of(name: str, *values: Value) -> Grid | None:
    """The grid of a result."""
    _, grid, _ = together(*values)
    if grid is None:
        return None
    terms = 2 if values[0].type.element in COMPLEX else 1
    if name in ("add", "subtract"):
        return Grid(2 * grid.bound, grid.bits)
    if name in ("multiply", "chlo.square"):
        return Grid(terms * grid.bound**2, 2 * grid.bits)
    if name == "sign":
        return Grid(1, 0)
    if name in ("ceil", "floor") or name.startswith("round_"):
        return Grid(math.ceil(grid.bound), 0)
    return grid if name in ("abs", "negate", "maximum", "minimum") else None


def away_from_edges(b: Builder, x: Value) -> Value:
    """Complex numbers on a grid: with infinities and NaN every formula gives something else."""
    return x if x.grid is not None or x.type.element not in COMPLEX else b.leaf(x.type, "grid")


_BITS = Quality.BITS
_OF_BOTH = (
    "cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan tanh"
)
_CHLO_OF_BOTH = "chlo.acos chlo.acosh chlo.asin chlo.asinh chlo.atan chlo.atanh chlo.cosh chlo.sinh"
_CHLO = f"{_CHLO_OF_BOTH} chlo.bessel_i1e chlo.erf chlo.erf_inv chlo.erfc"
_SHIFTS = "shift_left shift_right_arithmetic shift_right_logical"

arithmetic = Op("add subtract multiply", NUMBERS, 2, rounds=True)
extreme = Op("maximum minimum", REAL + BOOL, 2)
logical = Op("and or xor", INTEGERS + BOOL, 2)
shift = Op(_SHIFTS, INTEGERS, 2)
bit_count = Op("popcnt count_leading_zeros", INTEGERS, 1)
sign_like = Op("abs negate sign", SIGNED + COMMON_FLOATS, 1)
rounding = Op("ceil floor round_nearest_afz round_nearest_even", COMMON_FLOATS, 1)
transcendental = Op(f"cbrt {_OF_BOTH}", COMMON_FLOATS, 1, rounds=True, quality=_BITS)
OPS: Steps = {
    arithmetic: 6,
    extreme: 3,
    logical: 2,
    Op("multiply", BOOL, 2): 1,
    Op("not", INTEGERS + BOOL, 1): 1,
    shift: 1,
    bit_count: 1,
    sign_like: 2,
    Op("negate", INTEGERS + COMPLEX, 1): 1,
    rounding: 2,
    transcendental: 4,
    Op(f"abs sign {_OF_BOTH}", COMPLEX, 1, rounds=True, quality=_BITS): 1,
    Op("is_finite", COMMON_FLOATS, 1, result="i1"): 1,
}
CHLO_STEPS: Steps = {
    Op(_CHLO, COMMON_FLOATS, 1, rounds=True, quality=_BITS): 5,
    Op("chlo.digamma chlo.lgamma", COMMON_FLOATS, 1, rounds=True, quality=_BITS, scale=1.0): 1,
    Op(_CHLO_OF_BOTH, COMPLEX, 1, rounds=True, quality=_BITS): 1,
    Op("chlo.is_inf chlo.is_neg_inf chlo.is_pos_inf", COMMON_FLOATS, 1, result="i1"): 1,
    Op("chlo.square", COMMON_FLOATS + COMPLEX, 1, rounds=True): 1,
    Op("chlo.next_after", COMMON_FLOATS, 2, quality=_BITS): 1,
}

# -- the others ------------------------------------------------------------------------------------

_DIVISIONS = {"divide": NUMBERS, "remainder": REAL, "power": NUMBERS, "atan2": COMMON_FLOATS}


def division(b: Builder) -> None:
    """A quotient, a remainder, a power or an angle."""
    name = b.rng.choice(["divide", *_DIVISIONS])
    x = b.operand(_DIVISIONS[name], quality=Quality.BITS)
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
        x, y = away_from_edges(b, x), away_from_edges(b, y)
    elif name == "divide" and x.type.element in FLOATS and not b.is_input(y):
        # XLA and the model multiply by 1 / y if y is a constant, even if that is no normal number.
        y = b.leaf(x.type, "moderate")
    type_, quality, grid = b.result(x.type.element, x.type.shape, None, inexact=True)
    if name == "power":
        quality = Quality.CLOSE  # XLA takes a / power(b, c) for a * power(b, -c), of integers too
    b.step(name, [x, y], [(type_, quality, grid)])


def compare(b: Builder) -> None:
    x = b.operand()
    element = x.type.element
    total = element in COMMON_FLOATS and b.rng.random() < 0.15
    if total and x.quality < Quality.BITS:
        raise Unsuitable
    y = b.like(x.type, Quality.BITS if total else Quality.EQUAL)
    text = comparing(_direction(b, element), element)
    if total:
        text = text.replace("FLOAT", "TOTALORDER")
    elif b.rng.random() < 0.3:
        text = text.partition(",")[0]
    b.step("compare", [x, y], [b.result("i1", x.type.shape, None)], text)


def _direction(b: Builder, element: str) -> str:
    return b.rng.choice(["EQ", "NE", *(() if element in COMPLEX else ("LT", "LE", "GT", "GE"))])


def select(b: Builder) -> None:
    x = b.operand(quality=Quality.CLOSE)
    y = b.like(x.type, Quality.CLOSE)
    scalar = b.rng.random() < 0.2
    select_of(b, b.like(Type("i1", () if scalar else x.type.shape)), x, y)


def select_of(b: Builder, predicate: Value, x: Value, y: Value) -> None:
    """x where the predicate holds, y elsewhere."""
    quality, grid, moderate = together(x, y)
    if x.type.element in FLOATS + COMPLEX:
        quality = min(quality, Quality.EQUAL)  # the runtime's Where drops the sign of a zero
    scale = max(x.scale, y.scale)
    b.step("select", [predicate, x, y], [(x.type, quality, grid)], scale=scale, moderate=moderate)


def clamp(b: Builder) -> None:
    x = b.operand(REAL)
    low, high = (
        b.like(Type(x.type.element, () if b.rng.random() < 0.4 else x.type.shape)) for _ in range(2)
    )
    _, grid, _ = together(low, x, high)
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
    widens = source in FLOATS and target in FLOATS and WIDTH[target] > WIDTH[source]
    made = b.result(target, x.type.shape, _converted_grid(x, target), inexact=not widens)
    (value,) = b.step("convert", [x], [made])
    if target in SMALL_INTEGERS:
        b.step("convert", [value], [b.result("i32", x.type.shape, None)])


def _converted_grid(x: Value, target: str) -> Grid | None:
    source = x.type.element
    if target in INTEGERS + BOOL + SMALL_INTEGERS:
        return None
    if x.grid is not None or source in FLOATS + COMPLEX:
        return x.grid
    low, high = (0, 1) if source == "i1" else integer_range(source)
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
    values = [b.operand(("f32", "f64") if name == "complex" else COMPLEX)]
    if name == "complex":
        values.append(b.like(values[0].type))
    element = values[0].type.element
    quality, grid, moderate = together(*values)
    type_ = Type(PART.get(element, f"complex<{element}>"), values[0].type.shape)
    b.step(name, values, [(type_, quality, grid)], moderate=moderate)


def reduce_precision(b: Builder) -> None:
    x = b.operand(COMMON_FLOATS)
    exponent, mantissa = b.rng.choice([(5, 10), (8, 7), (4, 3), (8, 23), (5, 2), (3, 4), (8, 0)])
    made = b.result(x.type.element, x.type.shape, None, inexact=True)
    text = f"exponent_bits = {exponent} : i32, mantissa_bits = {mantissa} : i32"
    b.step("reduce_precision", [x], [made], text)


STEPS: Steps = {
    **OPS,
    division: 4,
    compare: 4,
    select: 4,
    clamp: 2,
    convert: 6,
    bitcast: 2,
    complex_parts: 2,
    reduce_precision: 1,
}
