"""Runs programs, each in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from pathlib import Path

from tools import run_module
from tools.zoo.worker import Result

SECONDS = 600
ERROR_LENGTH = 2_000


def run_one(python: Path, name: str, timed: bool, seconds: float = SECONDS) -> Result:
    """Translates, verifies and perhaps times a program in the given interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        arguments = [name, str(path), *(["--times"] if timed else [])]
        problem, text = "", ""
        try:
            done = run_module(
                "tools.zoo.worker", arguments, folder=folder, seconds=seconds, python=python
            )
            text = done.stderr
            if done.returncode < 0:
                problem = f"killed by {signal.Signals(-done.returncode).name}"
        except subprocess.TimeoutExpired:
            problem = f"no end after {seconds:.0f} s"
        result = Result(**json.loads(path.read_text())) if path.exists() else Result(name)
    if problem or not (result.ok or result.error):
        result.ok, result.error = False, f"{problem}\n{text[-ERROR_LENGTH:]}".strip()
    return result
