"""Seed to program."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

from tools.fuzzing import (
    branches,
    elementwise,
    indexing,
    loops,
    movement,
    products,
    reductions,
    sorting,
)
from tools.fuzzing.builder import Builder, Steps
from tools.fuzzing.program import Program


@dataclass(frozen=True)
class Family:
    """A kind of programs.

    Attributes:
        steps: What they consist of, with weights.
        most: Steps of the longest one.
        body: What their blocks consist of.
        deepest: How many blocks may be in each other.
    """

    steps: Steps
    most: int
    body: Steps = field(default_factory=dict)
    deepest: int = 3


def _once(module: ModuleType, names: str) -> Steps:
    """These steps of a module, each with the weight 1."""
    return {getattr(module, name): 1 for name in names.split()}


_INDEXING: Steps = {
    **indexing.STEPS,
    **sorting.STEPS,
    **_once(elementwise, "convert clamp select"),
    **_once(movement, "reshape transpose reverse concatenate broadcast_in_dim"),
    **_once(reductions, "arg_extreme"),
}
_CHLO: Steps = {
    **elementwise.CHLO_STEPS,
    **_once(elementwise, "arithmetic convert select"),
    **_once(movement, "reshape broadcast_in_dim"),
}
_REDUCTIONS: Steps = {
    **reductions.STEPS,
    **_once(elementwise, "arithmetic"),
    **_once(movement, "broadcast_in_dim reshape"),
    elementwise.convert: 2,
}
_BRANCHES = {branches.case: 40, branches.if_: 30, branches.call: 2, loops.while_: 15}
FAMILIES: Mapping[str, Family] = {
    "mixed": Family(
        {
            **elementwise.STEPS,
            **movement.STEPS,
            **reductions.STEPS,
            **products.STEPS,
            indexing.dynamic_slice: 1,
        },
        12,
    ),
    "indexing": Family(_INDEXING, 8),
    "chlo": Family(_CHLO, 8),
    "reductions": Family(_REDUCTIONS, 8),
    "loops": Family(loops.STEPS, 4, loops.BODY),
    "branches": Family({**loops.BODY, **_BRANCHES}, 4, {**loops.BODY, **_BRANCHES}, deepest=4),
}
"""The first one is the default."""


def case_name(family: str, seed: int) -> str:
    """What a program is called between processes."""
    return f"{family}/{seed}"


def generate(name: str) -> Program:
    """The program of such a name.

    Odd seeds stay exact from end to end, even ones hold special values.
    """
    family, _, digits = name.rpartition("/")
    chosen, seed = FAMILIES[family or "mixed"], int(digits)
    rng = random.Random(seed)
    builder = Builder(rng, exact=bool(seed % 2))
    builder.body, builder.deepest = chosen.body, chosen.deepest
    count = rng.randint(1, chosen.most if builder.exact else chosen.most // 2)
    made = 0
    while made < count:
        (step,) = rng.choices(list(chosen.steps), list(chosen.steps.values()))
        made += builder.attempt(step)
    return builder.program()
