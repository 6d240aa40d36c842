"""Counters that end a loop: which ones there are, and how often they let it go on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.fuzzing.builder import Builder, Unsuitable
from tools.fuzzing.elements import INTEGERS, NUMPY, SIGNED, integer_range
from tools.fuzzing.indices import apply, filled
from tools.fuzzing.program import Quality, Type, Value

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
        exact: Whether there are just so many if nothing else ends the loop.
    """

    element: str
    start: Value
    step: int
    direction: str
    bound: int
    trips: int
    exact: bool

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
        kind = "SIGNED" if self.element in SIGNED else "UNSIGNED"
        text = (
            f"comparison_direction = #stablehlo<comparison_direction {direction}>,"
            f" compare_type = #stablehlo<comparison_type {kind}>"
        )
        return b.step("compare", sides, [(Type("i1", ()), Quality.BITS, None)], text)[0]


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
        return Count(element, start, 1, "LT", bound, bound, exact=False)
    for _ in range(30):
        first, step, direction, bound = _drawn(b, element)
        trips = count_trips(element, first, step, direction, bound)
        if trips is not None:
            start = filled(b, scalar, first, constant=b.rng.random() < 0.8)
            return Count(element, start, step, direction, bound, trips, exact=True)
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
