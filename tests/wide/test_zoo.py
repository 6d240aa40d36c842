"""A few programs of packages; `tools.zoo` has many more, and runs them."""

from __future__ import annotations

import os
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from tools.zoo.environments import Environment, make
from tools.zoo.program import load_all
from tools.zoo.worker import run_one

GIVEN = os.environ.get("HLO2ONNX_ZOO")
"""The interpreter of an environment that has the packages; without it the test makes one."""


@pytest.mark.wide
def test_programs_of_packages(tmp_path: Path) -> None:
    programs = [item for item in load_all().values() if item.sample]
    assert len(programs) == 10
    python = Path(GIVEN) if GIVEN else tmp_path / "zoo" / "bin" / "python"
    if not GIVEN:
        environment = Environment("zoo", f"jax=={version('jax')}", ())
        try:
            make(environment, tmp_path, programs)
        except subprocess.CalledProcessError as error:
            if "after connection broken by" in (error.stderr or ""):
                pytest.skip("pip reaches no package index")
            pytest.fail(error.stderr)
    results = [run_one(python, item.name) for item in programs]
    assert not [(r.name, r.stage, r.error) for r in results if not r.ok]
