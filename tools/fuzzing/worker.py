"""The process that runs programs by their seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tools.conformance.outcome import Outcome
from tools.conformance.worker import serve
from tools.fuzzing.check import in_xla, run
from tools.fuzzing.generate import generate
from tools.fuzzing.program import Program


def run_seed(name: str, options: Mapping[str, Any]) -> Outcome:
    """Runs the program of a seed.

    Args:
        name: Its family and seed (`generate.case_name`).
        options: "outputs" (values to be the program's results) and "cuts" (values to be its
            inputs, with XLA's numbers), if only part of it is to run; "xla" to run it in XLA only.
    """
    program = generate(name)
    if options.get("xla"):
        in_xla(program)
        return Outcome(name, "pass")
    if options.get("outputs"):
        program = part(program, options["outputs"], options.get("cuts", ()))
    outcome = run(name, program)
    if outcome.status in ("pass", "skipped"):
        return outcome
    return replace(outcome, detail=f"{outcome.detail}\n{shown(program)}")


def part(program: Program, outputs: Sequence[int], cuts: Sequence[int]) -> Program:
    """What computes these outputs of a program from its inputs and the values of `cuts`."""
    numbers = in_xla(program.restricted(list(cuts))) if cuts else []
    return program.restricted(outputs, dict(zip(cuts, numbers, strict=True)))


def shown(program: Program) -> str:
    """Its text and arguments."""
    lines = [program.text()]
    for step in program.inputs:
        assert step.array is not None
        lines.append(f"%v{step.results[0]} = {step.array.dtype} {step.array.tolist()}")
    return "\n".join(lines)


if __name__ == "__main__":
    serve(run_seed, dict)
