"""case, if and calls."""

from __future__ import annotations

from tools.fuzzing.blocks import anything, as_result, convert_results, some_steps, within
from tools.fuzzing.builder import Builder, Unsuitable
from tools.fuzzing.elementwise import _together
from tools.fuzzing.indices import filled, start
from tools.fuzzing.program import Block, Quality, Type, Value, comparing


def case(b: Builder) -> None:
    count = b.rng.choice([1, 2, 2, 3, 4, 5])
    _branch(b, "case", start(b, "i32", count - 1), count)


def if_(b: Builder) -> None:
    """Under a condition that nobody knows, or that the range of an index may decide."""
    condition = b.like(Type("i1", ()))
    if b.rng.random() < 0.5:
        sides = [start(b, "i32", 6), filled(b, Type("i32", ()), b.rng.randint(-2, 7))]
        text = comparing(b.rng.choice(["LT", "LE", "GT", "GE", "EQ", "NE"]), "i32")
        (condition,) = b.step("compare", sides, [(condition.type, Quality.BITS, None)], text)
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
    together = [_together(*values) for values in zip(*returned, strict=True)]
    made = [
        (model.type, quality, grid)
        for model, (quality, grid, _) in zip(models, together, strict=True)
    ]
    scale = max(value.scale for values in returned for value in values)
    convert_results(b, b.step(name, [operand], made, scale=scale, blocks=blocks))


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
    made = [as_result(value) for value in results]
    scale = max(value.scale for value in results)
    convert_results(b, b.step("func.call", operands, made, scale=scale, blocks=[block]))
    if b.rng.random() < 0.3:
        again = [_in_place_of(b, operand) for operand in operands]
        convert_results(b, b.step("func.call", again, made, scale=scale, blocks=[block]))


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
