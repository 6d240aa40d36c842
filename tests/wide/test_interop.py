"""Tools of other projects on every example; `python -m tools.interop` shows the same."""

from __future__ import annotations

import pytest

from tools import example_names
from tools.interop.checks import TOOLS
from tools.interop.run import apply


@pytest.mark.wide
@pytest.mark.parametrize("program", example_names())
def test_tools(program: str) -> None:
    """Those that are not installed are left out. A known failure that is none any more fails."""
    found = {tool: text for tool, text in apply(program, list(TOOLS)).items() if text != "skipped"}
    failing = {tool: text for tool, text in found.items() if text}
    known = {tool for tool in found if program in TOOLS[tool].fails.split()}
    assert failing.keys() == known, failing
