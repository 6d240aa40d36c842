"""Commands that measure and check hlo2onnx and write its docs, run from the project's root.

`python -m tools.NAME --help` explains each of them.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The project's root."""


def environment(*folders: Path, **variables: str) -> dict[str, str]:
    """The environment of a child process that imports the project's packages.

    Args:
        folders: Further folders to import from, after the root.
        variables: Further environment variables.
    """
    given = filter(None, [os.environ.get("PYTHONPATH")])
    path = os.pathsep.join([*map(str, (ROOT, *folders)), *given])
    return {**os.environ, **variables, "PYTHONPATH": path}
