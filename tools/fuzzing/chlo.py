"""Functions and broadcasting arithmetic of CHLO."""

from __future__ import annotations

from collections.abc import Sequence

from tools.fuzzing.builder import Builder, Unsuitable
from tools.fuzzing.elements import (
    BOOL,
    COMMON_FLOATS,
    COMPLEX,
    INTEGERS,
)
from tools.fuzzing.elementwise import (
    NUMBERS,
    REAL,
    _away_from_edges,
    _grid2,
    _together,
)
from tools.fuzzing.movement import ints
from tools.fuzzing.program import Grid, Quality, Type, Value, comparing

_FUNCTIONS = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "cosh", "digamma",
              "erf", "erf_inv", "erfc", "lgamma", "sinh"]  # fmt: skip
_OF_COMPLEX = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh"]


def function(b: Builder) -> None:
    """A function of one number."""
    is_complex = b.rng.random() < 0.1
    name = b.rng.choice(_OF_COMPLEX if is_complex else _FUNCTIONS)
    x = b.operand(COMPLEX if is_complex else COMMON_FLOATS, quality=Quality.BITS)
    x = _away_from_edges(b, x)
    made = b.result(x.type.element, x.type.shape, None, inexact=True)
    # Near their zeros XLA is no better than this.
    b.step(f"chlo.{name}", [x], [made], scale=1.0 if name in ("digamma", "lgamma") else 0.0)


def test(b: Builder) -> None:
    """Which infinity it is."""
    x = b.operand(COMMON_FLOATS)
    name = b.rng.choice(["is_inf", "is_neg_inf", "is_pos_inf"])
    b.step(f"chlo.{name}", [x], [b.result("i1", x.type.shape, None)])


def square(b: Builder) -> None:
    x = _away_from_edges(b, b.operand(COMMON_FLOATS + COMPLEX))
    grid = _grid2(x, x, "multiply")
    b.step("chlo.square", [x], [b.result(x.type.element, x.type.shape, grid, inexact=True)])


def next_after(b: Builder) -> None:
    x = b.operand(COMMON_FLOATS, quality=Quality.BITS)
    y = b.like(x.type, Quality.BITS)
    if b.exact:
        raise Unsuitable  # what it gives is on no grid
    b.step("chlo.next_after", [x, y], [(x.type, Quality.EQUAL, None)])


# -- broadcasting ------------------------------------------------------------------------------

_BINARY = {
    "add": NUMBERS,
    "subtract": NUMBERS,
    "multiply": NUMBERS,
    "divide": NUMBERS,
    "remainder": REAL,
    "power": COMMON_FLOATS,
    "atan2": COMMON_FLOATS,
    "maximum": REAL + BOOL,
    "minimum": REAL + BOOL,
    "and": INTEGERS + BOOL,
    "or": INTEGERS + BOOL,
    "xor": INTEGERS + BOOL,
    "shift_left": INTEGERS,
    "shift_right_arithmetic": INTEGERS,
    "shift_right_logical": INTEGERS,
    "compare": NUMBERS + BOOL,
    "complex": ("f32", "f64"),
}
_ARITHMETIC = ("add", "subtract", "multiply")
_ROUNDED = ("divide", "remainder", "power", "atan2")


def broadcast(b: Builder) -> None:
    """A binary op of two shapes, the axes of the one being the last ones of the other."""
    name = b.rng.choice(list(_BINARY))
    shape = b.shape(b.rng.choice([0, 1, 2, 2, 3]))
    rank = b.rng.randint(0, len(shape))
    # XLA takes no other axes.
    axes = list(range(len(shape) - rank, len(shape)))
    element = b.rng.choice(_BINARY[name])
    few = _some(b, [shape[axis] for axis in axes])
    many = _some(b, shape)
    result = list(many)
    for axis, extent in zip(axes, few, strict=True):
        result[axis] = extent if result[axis] == 1 else result[axis]
    x, y = (_operand(b, name, Type(element, extents)) for extents in (many, few))
    if b.rng.random() < 0.5:
        x, y = y, x
    texts = [f"broadcast_dimensions = {ints(axes)}"]
    if b.rng.random() < 0.6:
        texts = []
    if name == "compare":
        texts += _comparing(b, element)
    made = _made(b, name, x, y, result)
    b.step(f"chlo.broadcast_{name}", [x, y], [made], ", ".join(texts))


def _some(b: Builder, extents: Sequence[int]) -> tuple[int, ...]:
    return tuple(1 if b.rng.random() < 0.3 else extent for extent in extents)


def _operand(b: Builder, name: str, type_: Type) -> Value:
    rounded = name in _ROUNDED
    if rounded:  # Newer XLA takes x / x for 1 without a look at x.
        return _away_from_edges(b, b.leaf(type_))
    x = b.like(type_)
    return x if name in ("compare", "add", "subtract") else _away_from_edges(b, x)


def _comparing(b: Builder, element: str) -> list[str]:
    names = ["EQ", "NE"] if element in COMPLEX else ["EQ", "NE", "LT", "LE", "GT", "GE"]
    texts = comparing(b.rng.choice(names), element).replace("stablehlo", "chlo").split(", ")
    return texts if b.rng.random() < 0.7 else texts[:1]


def _made(
    b: Builder, name: str, x: Value, y: Value, shape: Sequence[int]
) -> tuple[Type, Quality, Grid | None]:
    element = x.type.element
    if name == "compare":
        return b.result("i1", shape, None)
    if name == "complex":
        quality, grid, _ = _together(x, y)
        return Type(f"complex<{element}>", tuple(shape)), quality, grid
    if name in _ROUNDED:
        return b.result(element, shape, None, inexact=True)
    return b.result(element, shape, _grid2(x, y, name), inexact=name in _ARITHMETIC)


STEPS = {function: 5, test: 1, square: 1, next_after: 1, broadcast: 6}
