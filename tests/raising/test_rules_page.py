"""Every rule has a name of its own, a first line with an arrow, and a place on the page."""

from __future__ import annotations

import sys
from pathlib import Path

from hlo2onnx.raising.rules import RULES

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def test_names_are_unique() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))


def test_first_lines_show_the_rewrite() -> None:
    for rule in RULES:
        first = (type(rule).__doc__ or "").partition("\n\n")[0]
        assert "->" in first, f"{rule.name}: {first}"


def test_the_page_is_current() -> None:
    sys.path.insert(0, str(TOOLS))
    try:
        import rules

        assert rules.PAGE.read_text(encoding="utf-8") == rules.page(), (
            "python tools/rules.py --write"
        )
    finally:
        sys.path.remove(str(TOOLS))
