"""Keras' own tests of its ONNX export, with hlo2onnx in jax2onnx' place."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import environment

LENT = ("_pytest", "iniconfig", "pluggy", "py", "pytest")
"""Modules without binaries that an interpreter without pytest borrows."""
SKIP = 'backend.backend() in ("jax", "tensorflow")'
"""Keras skips the LSTM for jax2onnx."""
FIND = "import importlib.util as u; print(u.find_spec({!r}).{})"


def found(python: str, name: str, attribute: str) -> str | None:
    """An attribute of a module's spec in an interpreter; None where there is no such module."""
    code = FIND.format(name, attribute)
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


@pytest.mark.wide
def test_keras_passes_its_tests(tmp_path: Path) -> None:
    candidates = [sys.executable, *filter(None, [os.environ.get("HLO2ONNX_ZOO")])]
    found_at = {python: found(python, "keras", "origin") for python in candidates}
    python = next((python for python, origin in found_at.items() if origin), None)
    if python is None:
        pytest.skip("not installed, here or in the environment of HLO2ONNX_ZOO: keras")
    tests = Path(str(found_at[python])).parent / "src" / "export" / "onnx_test.py"
    if not tests.exists():
        pytest.skip(f"this release of Keras has no {tests.name}")
    text = tests.read_text(encoding="utf-8")
    (tmp_path / "test_export.py").write_text(
        text.replace(SKIP, 'backend.backend() == "tensorflow"'), encoding="utf-8"
    )
    stub = "from hlo2onnx.compat.jax2onnx import to_onnx\n"
    (tmp_path / "jax2onnx.py").write_text(stub, encoding="utf-8")
    if found(python, "pytest", "origin") is None:
        lend(tmp_path)
    variables = environment(KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")
    variables["PYTHONPATH"] = os.pathsep.join([str(tmp_path), variables["PYTHONPATH"]])
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_export.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b1[6-9] passed", done.stdout), done.stdout
    if SKIP in text:
        assert "skipped" not in done.stdout


def lend(folder: Path) -> None:
    """Links the modules of this environment's pytest into a folder of the module path."""
    for name in LENT:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        origin = Path(str(spec.origin))
        source = origin.parent if origin.name == "__init__.py" else origin
        (folder / source.name).symlink_to(source)
