"""The page of portability keeps the columns of runtimes that are not measured again."""

from __future__ import annotations

from tools import ROOT
from tools.portability.page import page, recorded


def test_a_page_is_read_as_it_was_written() -> None:
    text = (ROOT / "docs" / "portability.md").read_text(encoding="utf-8")
    made = page(recorded(text))
    assert made in text and "| `tract@" in made
