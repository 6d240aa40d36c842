"""The process that runs programs by their seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tools.conformance.outcome import Outcome
from tools.conformance.worker import serve_cases
from tools.fuzzing.check import in_xla, run
from tools.fuzzing.generate import generate
from tools.fuzzing.program import Program


def run_seed(name: str, options: Mapping[str, Any]) -> Outcome:
    """Runs the program of a seed; of a failing one, the part of one output that fails alike.

    Args:
        name: Its family and seed (`generate.case_name`).
        options: "xla" to run it in XLA only.
    """
    program = generate(name)
    if options.get("xla"):
        in_xla(program)
        return Outcome(name, "pass")
    outcome = run(name, program)
    if not outcome.failed:
        return outcome
    for output in program.outputs:
        part = program.restricted([output])
        found = run(name, part)
        if found.status == outcome.status:
            program, outcome = part, found
            break
    return replace(outcome, detail=f"{outcome.detail}\n{shown(program)}")


def shown(program: Program) -> str:
    """Its text and arguments."""
    lines = [program.text()]
    for step in program.inputs:
        assert step.array is not None
        lines.append(f"%v{step.results[0]} = {step.array.dtype} {step.array.tolist()}")
    return "\n".join(lines)


if __name__ == "__main__":
    serve_cases(run_seed, dict)
