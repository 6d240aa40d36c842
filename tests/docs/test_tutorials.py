"""The tutorials run from top to bottom, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import ROOT
from processes import run_python

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))


@pytest.mark.wide
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_the_tutorial_runs(tutorial: Path, tmp_path: Path) -> None:
    run_python(
        f"import os, runpy; os.chdir({str(tmp_path)!r}); runpy.run_path({str(tutorial)!r})",
        JAX_PLATFORMS="cpu",
    )


def test_the_site_shows_every_tutorial() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert len(TUTORIALS) >= 5
    for path in TUTORIALS:
        assert f"tutorials/{path.stem}.md\n" in navigation
