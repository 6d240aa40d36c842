"""Commands that measure and check hlo2onnx and write its docs, run from the project's root.

`python -m tools.NAME --help` explains each of them.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
"""The project's root."""

EXAMPLES = ROOT / "examples" / "mlir"
"""The examples as StableHLO."""


def example_names() -> list[str]:
    """The names of the examples, in order."""
    return sorted(path.stem for path in EXAMPLES.glob("*.mlir"))


def words(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated option."""
    return tuple(filter(None, text.split(",")))


def command_line(tool: str, doc: str | None) -> argparse.ArgumentParser:
    """The parser of `python -m tools.TOOL`. Its help begins with the docstring of the module."""
    return argparse.ArgumentParser(
        prog=f"python -m tools.{tool}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


_WRITTEN = "<!-- What follows is written by a tool. -->\n"


def write_page(path: Path, text: str) -> None:
    """Replaces what a tool has written in a page, below the prose that people write."""
    prose = path.read_text(encoding="utf-8").partition(_WRITTEN)[0] if path.exists() else ""
    path.write_text(f"{prose}{_WRITTEN}\n{text.strip()}\n", encoding="utf-8")


def environment(*folders: Path, **variables: str) -> dict[str, str]:
    """The environment of a child process that imports the project's packages; JAX has the CPU only.

    Args:
        folders: Further folders to import from, after the root.
        variables: Further environment variables.
    """
    given = filter(None, [os.environ.get("PYTHONPATH")])
    path = os.pathsep.join([*map(str, (ROOT, *folders)), *given])
    return {**os.environ, "JAX_PLATFORMS": "cpu", **variables, "PYTHONPATH": path}


def run_module(
    module: str,
    arguments: Sequence[str],
    *,
    folder: str | Path,
    seconds: float,
    python: str | Path = sys.executable,
) -> subprocess.CompletedProcess[str]:
    """Runs a module in a process of its own, and returns what it printed and its exit code.

    Args:
        module: Its name, such as "tools.zoo.worker".
        arguments: Arguments of the command.
        folder: The working directory.
        seconds: The time limit.
        python: The interpreter, which may be another environment's.

    Raises:
        subprocess.TimeoutExpired: It takes longer.
    """
    return subprocess.run(
        [str(python), "-W", "ignore", "-m", module, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def result_of(
    module: str, name: str, options: Sequence[str], *, seconds: float, python: str | Path
) -> tuple[Any, str, str]:
    """Runs a module that writes JSON into a file: its arguments are a name, the file, and options.

    Returns:
        The content of the file, None if there is none; what ended the process, if not itself; and
        what it wrote on the standard error.
    """
    problem, log = "", ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        arguments = [name, str(path), *options]
        try:
            done = run_module(module, arguments, folder=folder, seconds=seconds, python=python)
            log = done.stderr
            if done.returncode < 0:
                problem = f"killed by {signal.Signals(-done.returncode).name}"
        except subprocess.TimeoutExpired:
            problem = f"no end after {seconds:.0f} s"
        data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return data, problem, log
