"""The documentation's pages and the blocks of code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STAND_IN = re.compile(r"^<!-- test: (\S+) is (\S+) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of code.

    Attributes:
        language: "python", "sh", "text" (the output of the block before), or another word.
        text: The content.
        line: The number of its first line in the page.
    """

    language: str
    text: str
    line: int


def name_of(page: Path) -> str:
    """The page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    content = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], content.count("\n", 0, match.start()) + 2)
        for match in BLOCK.finditer(content)
    ]


def stand_ins(page: Path) -> dict[str, Path]:
    """Files that replace the output files of blocks that do not run, by name.

    A page says so in a comment: `<!-- test: model.mlir is tests/producers/reactant.mlir -->`.
    """
    found = _STAND_IN.findall(page.read_text(encoding="utf-8"))
    return {name: ROOT / path for name, path in found}
