"""A save that is killed or fails leaves the old model or the new one, never a mixture."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
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


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of 8 MB."""
    folder = tmp_path_factory.mktemp("small")
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("cannot mount a tmpfs here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.wide
@pytest.mark.parametrize("count", COUNTS)
def test_killed_limited_or_racing(count: int, tmp_path: Path) -> None:
    found = trials(tmp_path, count, "kill", "limit", "race")
    if count == MANY:
        assert all(item["old"] > 20 and item["new"] > 20 for item in found[:4])
        assert all(item["with leftovers"] > 10 for item in found[:2])  # killed while writing


@pytest.mark.wide
@pytest.mark.parametrize("count", COUNTS)
def test_full_disk(count: int, small_disk: Path) -> None:
    found = trials(small_disk, count, "full")
    assert count == QUICK or all(item["old"] > 20 and item["new"] > 20 for item in found)
