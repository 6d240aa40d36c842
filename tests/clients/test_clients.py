"""Packages that export to ONNX, or could, with hlo2onnx: each in an environment of its own.

HLO2ONNX_CLIENTS names a folder of environments. One that is not there is made; it takes minutes
and some gigabytes. `requirements.txt` of a client names its packages and, in its first line, the
version of Python. `check.py` runs in the environment, with hlo2onnx of this checkout, and prints
its figures as one line of JSON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from processes import environment

ROOT = Path(__file__).parents[2]
CLIENTS = sorted(path.parent for path in Path(__file__).parent.glob("*/check.py"))
MODULES = os.pathsep.join((str(ROOT), str(Path(__file__).parent)))
"""Where a check finds hlo2onnx of this checkout, and `timing`."""
LIMIT = 1200
"""Seconds for a check."""


@pytest.mark.wide
@pytest.mark.sampled
@pytest.mark.parametrize("client", CLIENTS, ids=lambda path: path.name)
def test_client(client: Path, tmp_path: Path) -> None:
    folder = os.environ.get("HLO2ONNX_CLIENTS")
    if folder is None:
        pytest.skip("HLO2ONNX_CLIENTS names no folder for the clients' environments")
    python = interpreter(client, Path(folder) / client.name)
    done = subprocess.run(
        [python, client / "check.py"],
        cwd=tmp_path,
        env=environment(JAX_PLATFORMS="cpu", PYTHONPATH=MODULES),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    print(client.name, figures)
    assert figures


@pytest.mark.parametrize("client", CLIENTS, ids=lambda path: path.name)
def test_page(client: Path) -> None:
    """Each client has a short page; a function that it proposes is the one that is checked."""
    page = (ROOT / "docs" / "clients" / f"{client.name}.md").read_text(encoding="utf-8")
    assert sum(not line.startswith("+") for line in page.splitlines()) <= 40
    added = "\n".join(re.findall(r"^\+(?!\+)(.*)$", page, re.MULTILINE))
    _, definition, body = added.partition("def export")
    assert definition + body in (client / "check.py").read_text(encoding="utf-8")


def interpreter(client: Path, folder: Path) -> Path:
    """The interpreter of a client's environment, which is made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        wanted = client / "requirements.txt"
        version = wanted.read_text(encoding="utf-8").splitlines()[0].removeprefix("# Python ")
        base = shutil.which(f"python{version}")
        if base is None:
            pytest.skip(f"there is no python{version} to make the environment with")
        subprocess.run([base, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "-q", "-r", wanted, f"{ROOT}[ort]"]
        subprocess.run(install, check=True)
    return python
