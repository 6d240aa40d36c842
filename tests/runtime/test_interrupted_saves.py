"""A save that is killed or fails leaves the old model or the new one, never a mixture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import environment

SCRIPT = Path(__file__).parents[1] / "support" / "interrupted_saves.py"
QUICK, MANY = 8, 200

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")

COUNTS = [QUICK, pytest.param(MANY, marks=pytest.mark.wide)]


def trials(folder: Path, count: int, *ways: str) -> list[dict[str, int]]:
    """What became of the saves: how many left the old model, the new one, a temporary file."""
    command = [sys.executable, str(SCRIPT), str(folder), str(count), *ways]
    child = subprocess.run(
        command, capture_output=True, text=True, env=environment(), check=False, timeout=600
    )
    assert child.returncode == 0, child.stderr
    found = [json.loads(line) for line in child.stdout.splitlines()]
    print(*found, sep="\n")
    assert len(found) == 2 * len(ways)
    return found


@pytest.mark.wide
@pytest.mark.parametrize("count", COUNTS)
def test_killed_or_limited(count: int, tmp_path: Path) -> None:
    found = trials(tmp_path, count, "kill", "limit")
    if count == MANY:
        assert all(item["old"] > 20 and item["new"] > 20 for item in found)
        assert all(item["with leftovers"] > 10 for item in found[:2])  # killed while writing
