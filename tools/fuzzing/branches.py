"""case, if and calls, and the steps of blocks of control flow."""

from __future__ import annotations

from tools.fuzzing.builder import Builder, Unsuitable
from tools.fuzzing.elements import ALL, SMALL_FLOATS
from tools.fuzzing.indices import filled, start
from tools.fuzzing.program import Block, Grid, Quality, Type, Value, together


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
    elements = ALL + SMALL_FLOATS if b.rng.random() < 0.12 else ALL
    return b.operand(elements, range(5), quality=Quality.CLOSE)


def within(grid: Grid | None, around: Grid | None) -> bool:
    """Whether one grid holds all numbers of the other."""
    if around is None:
        return True
    return grid is not None and grid.bound <= around.bound and grid.bits <= around.bits


def case(b: Builder) -> None:
    count = b.rng.choice([1, 2, 2, 3, 4, 5])
    _branch(b, "case", start(b, "i32", count - 1), count)


def if_(b: Builder) -> None:
    """Under a condition that nobody knows, or that the range of an index may decide."""
    condition = b.like(Type("i1", ()))
    if b.rng.random() < 0.5:
        sides = [start(b, "i32", 6), filled(b, Type("i32", ()), b.rng.randint(-2, 7))]
        condition = b.compare(b.rng.choice(["LT", "LE", "GT", "GE", "EQ", "NE"]), *sides)
    _branch(b, "if", condition, 2)


def _branch(b: Builder, name: str, operand: Value, count: int) -> None:
    """case or if over so many blocks."""
    if b.depth >= b.deepest:
        raise Unsuitable
    models = [anything(b) for _ in range(b.rng.choice([1, 1, 2, 3]))]
    blocks: list[Block] = []
    returned: list[list[Value]] = []
    for _ in range(count):
        with b.block([]):
            some_steps(b, b.rng.choice([0, 1, 1, 2]))
            values = [b.like(model.type, Quality.CLOSE) for model in models]
            blocks.append(b.ended([], values))
            returned.append(values)
    made = [
        (model.type, *together(*values)[:2])
        for model, values in zip(models, zip(*returned, strict=True), strict=True)
    ]
    scale = max(value.scale for values in returned for value in values)
    b.step(name, [operand], made, scale=scale, blocks=blocks)


def call(b: Builder) -> None:
    if b.depth >= b.deepest:
        raise Unsuitable
    operands = [anything(b) for _ in range(b.rng.choice([0, 1, 2, 3]))]
    symbol = f"f{len(b.values)}"
    with b.block(operands, isolated=True) as arguments:
        some_steps(b, b.rng.choice([1, 2, 3]))
        if not b.visible:
            raise Unsuitable
        results = b.rng.choices(b.visible, k=b.rng.choice([1, 1, 2]))
        block = b.ended(arguments, results, symbol)
    made = [value.made for value in results]
    scale = max(value.scale for value in results)
    b.step("func.call", operands, made, scale=scale, blocks=[block])
    if b.rng.random() < 0.3:
        again = [_in_place_of(b, operand) for operand in operands]
        b.step("func.call", again, made, scale=scale, blocks=[block])


def _in_place_of(b: Builder, x: Value) -> Value:
    """Another value for which everything holds that holds for x."""
    found = [
        value
        for value in b.visible
        if value.type == x.type
        and value.quality >= x.quality
        and within(value.grid, x.grid)
        and value.scale <= x.scale
        and value.moderate >= x.moderate
    ]
    return b.rng.choice(found)


STEPS = {case: 2, if_: 2, call: 2}
