"""Reduces a failing program: runs parts of it and keeps the smallest that fails."""

from __future__ import annotations

from collections.abc import Sequence

from tools.conformance.outcome import Outcome
from tools.conformance.pool import Pool
from tools.fuzzing.generate import generate
from tools.fuzzing.program import Program, Quality


def reduced(pool: Pool, found: Outcome) -> tuple[Outcome, str]:
    """The outcome of the smallest part that fails in the same way, and the ops of that part."""
    program = generate(found.name)
    best, outputs = found, list(program.outputs)
    for output in outputs:
        outcome = _run(pool, found.name, [output], [])
        if outcome.status == found.status:
            best, outputs = outcome, [output]
            break
    else:
        for output in list(outputs[1:]):
            fewer = [index for index in outputs if index != output]
            outcome = _run(pool, found.name, fewer, [])
            if outcome.status == found.status:
                best, outputs = outcome, fewer
    cuts: list[int] = []
    for index in sorted(_inner(program, outputs), reverse=True):
        outcome = _run(pool, found.name, outputs, [*cuts, index])
        if outcome.status == found.status:
            best, cuts = outcome, [*cuts, index]
    return best, _ops(program, outputs, cuts)


def _run(pool: Pool, name: str, outputs: Sequence[int], cuts: Sequence[int]) -> Outcome:
    (future,) = pool.submit([name], {"outputs": list(outputs), "cuts": list(cuts)})
    return future.result()


def _inner(program: Program, outputs: Sequence[int]) -> list[int]:
    """Values between the inputs and the outputs that can be inputs themselves: those that XLA's
    numbers make certain.
    """
    kept = program.restricted(outputs)
    return [
        index
        for index in kept.computed()
        if index not in outputs and program.values[index].quality > Quality.CLOSE
    ]


def _ops(program: Program, outputs: Sequence[int], cuts: Sequence[int]) -> str:
    """Name and element types of each op that is left, the last one first."""
    left: list[str] = []
    todo = list(outputs)
    while todo:
        index = todo.pop(0)
        step = program.producers[index]
        if not step.name or index in cuts:
            continue
        todo += step.operands
        if step.name in ("constant", "iota") and left:
            continue
        what = program.blame(index)
        left += [] if what in left else [what]
    return ", ".join(left[:3])
