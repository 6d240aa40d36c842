"""Seed to program."""

from __future__ import annotations

import random

from fuzzing import elementwise, movement, products, reductions
from fuzzing.builder import Builder, Unsuitable
from fuzzing.program import Program

STEPS = {**elementwise.STEPS, **movement.STEPS, **reductions.STEPS, **products.STEPS}
MAX_STEPS = 12


def generate(seed: int) -> Program:
    """The program of a seed: odd ones stay exact from end to end, even ones hold special values."""
    rng = random.Random(seed)
    builder = Builder(rng, exact=bool(seed % 2))
    count = rng.randint(1, MAX_STEPS if builder.exact else MAX_STEPS // 2)
    made = 0
    while made < count:
        (step,) = rng.choices(list(STEPS), list(STEPS.values()))
        length = len(builder.steps), len(builder.values)
        try:
            step(builder)
            made += 1
        except Unsuitable:
            _undo(builder, *length)
    return builder.program()


def _undo(builder: Builder, steps: int, values: int) -> None:
    """Takes back the leaves that an op drew before it turned out not to fit."""
    del builder.steps[steps:]
    for index in range(values, len(builder.values)):
        del builder.values[index]
