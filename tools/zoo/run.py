"""Runs programs, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

from tools import result_of
from tools.zoo.worker import Result

SECONDS = 600
ERROR_LENGTH = 2_000


def run_one(python: Path, name: str, timed: bool, seconds: float = SECONDS) -> Result:
    """Translates, verifies and perhaps times a program in the given interpreter."""
    options = ["--times"] if timed else []
    found = result_of("tools.zoo.worker", name, options, seconds=seconds, python=python)
    data, problem, log = found
    result = Result(**(data or {"name": name}))
    if problem or not (result.ok or result.error):
        result.ok, result.error = False, f"{problem}\n{log[-ERROR_LENGTH:]}".strip()
    return result
