"""The files in a page of the documentation: blocks of code under a line with a path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"^`(?P<path>[\w./-]+)`:\n\n```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True)
class Example:
    """A file, or the change of a file if the language is "diff"."""

    path: str
    language: str
    text: str

    def write(self, folder: Path) -> Path:
        """Writes or changes the file below a folder; returns its path."""
        path = folder / self.path
        text = self.text if self.language != "diff" else changed(path.read_text(), self.text)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # it may be a link
        path.write_text(text)
        return path


def examples_of(page: Path, heading: str) -> list[Example]:
    """The files of one section."""
    sections = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.M)
    (section,) = (part for part in sections if part.startswith(f"{heading}\n"))
    return [Example(**match.groupdict()) for match in _BLOCK.finditer(section)]


def changed(text: str, diff: str) -> str:
    """The text with lines added after others: "+line" after " line" before it."""
    position = 0
    for line in diff.splitlines():
        body = line[1:] + "\n"
        if line.startswith("+"):
            text = text[:position] + body + text[position:]
        else:
            assert body in text[position:], f"no line {line[1:]!r}"
            position = text.index(body, position)
        position += len(body)
    return text
