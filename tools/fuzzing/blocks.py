"""Steps of blocks of control flow."""

from __future__ import annotations

from collections.abc import Sequence

from tools.fuzzing import indexing
from tools.fuzzing.builder import Builder
from tools.fuzzing.elements import ALL, SMALL_FLOATS, SMALL_INTEGERS
from tools.fuzzing.program import Grid, Quality, Type, Value


def some_steps(b: Builder, count: int) -> None:
    """So many steps of a block, or fewer where not that many fit."""
    made = 0
    for _ in range(4 * count):
        (step,) = b.rng.choices(list(b.body), list(b.body.values()))
        made += b.attempt(step)
        if made == count:
            break


def anything(b: Builder) -> Value:
    """A value of any type."""
    choice = b.rng.random()
    elements = SMALL_INTEGERS if choice < 0.03 else ALL + SMALL_FLOATS if choice < 0.12 else ALL
    return b.operand(elements, range(5), quality=Quality.CLOSE)


def as_result(value: Value) -> tuple[Type, Quality, Grid | None]:
    """What a step's result is that is like a value."""
    return value.type, value.quality, value.grid


def within(grid: Grid | None, around: Grid | None) -> bool:
    """Whether one grid holds all numbers of the other."""
    if around is None:
        return True
    return grid is not None and grid.bound <= around.bound and grid.bits <= around.bits


def convert_results(b: Builder, made: Sequence[Value]) -> None:
    """Converts the small ones among the program's own."""
    if not b.depth:
        indexing.convert_small(b, made)
