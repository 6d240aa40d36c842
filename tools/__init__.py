"""Commands that measure and check hlo2onnx and write its docs, run from the project's root.

`python -m tools.NAME --help` explains each of them.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

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


_WRITTEN = "<!-- What follows is written by a tool. -->\n"


def write_page(path: Path, text: str) -> None:
    """Replaces what a tool has written in a page, below the prose that people write."""
    prose = path.read_text(encoding="utf-8").partition(_WRITTEN)[0] if path.exists() else ""
    path.write_text(f"{prose}{_WRITTEN}\n{text.strip()}\n", encoding="utf-8")


def environment(*folders: Path, **variables: str) -> dict[str, str]:
    """The environment of a child process that imports the project's packages.

    Args:
        folders: Further folders to import from, after the root.
        variables: Further environment variables.
    """
    given = filter(None, [os.environ.get("PYTHONPATH")])
    path = os.pathsep.join([*map(str, (ROOT, *folders)), *given])
    return {**os.environ, **variables, "PYTHONPATH": path}


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
