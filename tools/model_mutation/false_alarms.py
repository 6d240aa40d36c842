"""Verifies unchanged programs, and counts those that differ."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools import ROOT, run_module
from tools.model_mutation import programs
from tools.model_mutation.unchanged import Verdict
from tools.zoo.environments import environment_of
from tools.zoo.program import load_all

SECONDS = 400.0
"""Limit for a program."""


def run(chosen: Sequence[str], seed: int) -> list[Verdict]:
    """Verifies programs, each in a process of its own, and prints what is not right.

    Args:
        chosen: Names, as of `programs.translated`.
        seed: Seed of the verification.
    """
    found = []
    for verdict in (_of(sys.executable, name, seed) for name in chosen):
        _print(verdict)
        found.append(verdict)
    return found


def run_zoo(folder: Path, count: int, seed: int) -> list[Verdict]:
    """Verifies programs of the zoo in the environments of a folder.

    Args:
        count: How many of them, spread over the list.
    """
    found = []
    for name in _spread(folder, count):
        python = folder / environment_of(load_all()[name]).name / "bin" / "python"
        verdict = _of(str(python), f"{programs.ZOO}{name}", seed)
        _print(verdict)
        found.append(verdict)
    return found


def summary(found: Sequence[Verdict]) -> str:
    """The counts."""
    counts = Counter(item.verdict for item in found)
    shown = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    slow = sum(item.seconds for item in found)
    return f"{len(found)} unchanged programs: {shown}; verified in {slow:.0f} s"


def _spread(folder: Path, count: int) -> Iterator[str]:
    names = [
        name
        for name, item in sorted(load_all().items())
        if not item.fault and (folder / environment_of(item).name / "bin" / "python").exists()
    ]
    step = max(1, len(names) // max(1, count))
    yield from names[::step][:count]


def _of(python: str, name: str, seed: int) -> Verdict:
    try:
        done = run_module(
            "tools.model_mutation.unchanged",
            [name, str(seed)],
            folder=ROOT,
            seconds=SECONDS,
            python=python,
        )
    except subprocess.TimeoutExpired:
        return Verdict(name, "fails", f"no end after {SECONDS:.0f} s")
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"name"')]
    if not lines:
        return Verdict(name, "fails", f"exit code {done.returncode}\n{done.stderr[-1500:]}")
    return Verdict(**json.loads(lines[-1]))


def _print(verdict: Verdict) -> None:
    print(f"{verdict.name:<36} {verdict.verdict:<18} {verdict.seconds:6.2f} s", flush=True)
    if verdict.text:
        print("    " + "\n    ".join(verdict.text.splitlines()[:40]), flush=True)
