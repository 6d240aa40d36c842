"""Tools of other projects on every example; `python -m tools.interop` shows the same."""

from __future__ import annotations

import pytest

from tools import example_names
from tools.interop.checks import TOOLS
from tools.interop.known import REASONS, reason_of
from tools.interop.run import apply


@pytest.mark.wide
@pytest.mark.parametrize("program", example_names())
def test_tools(program: str) -> None:
    """Those that are not installed are left out. A known failure that is none any more fails."""
    found = {tool: text for tool, text in apply(program, list(TOOLS)).items() if text != "skipped"}
    assert not {t: text for t, text in found.items() if text and not reason_of(t, program, text)}
    known = {reason.tool for reason in REASONS if program in reason.programs.split()}
    assert not [tool for tool in known & found.keys() if not found[tool]]
