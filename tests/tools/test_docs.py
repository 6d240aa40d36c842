"""The API reference as a web site, without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pdoc")

ROOT = Path(__file__).parents[2]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.docs", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.wide
def test_the_reference_builds_without_warnings(tmp_path: Path) -> None:
    done = run(tmp_path / "site")
    assert done.stderr == ""
    assert done.returncode == 0
    front = (tmp_path / "site" / "hlo2onnx.html").read_text()
    for name in ("translate", "OnnxProgram", "expand_custom_call", "PluginError"):
        assert f'id="{name}"' in front
    assert (tmp_path / "site" / "hlo2onnx" / "lowering" / "emitter.html").exists()
    assert run(tmp_path / "site").returncode == 0  # it is written again


@pytest.mark.wide
def test_other_folders_stay(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    done = run(tmp_path)
    assert done.returncode == 2
    assert "holds something else" in done.stderr
    assert (tmp_path / "precious.txt").exists()
