"""Child processes that import the same hlo2onnx, installed or not."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import hlo2onnx

ROOT = Path(hlo2onnx.__file__).parent.parent


def environment(**variables: str) -> dict[str, str]:
    """This environment with further variables, and the repository on the module path."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path, **variables}


def run_python(script: str, python: str = sys.executable, **variables: str) -> str:
    """Runs a script in a new interpreter; returns its output."""
    child = subprocess.run(
        [python, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        env=environment(**variables),
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout
