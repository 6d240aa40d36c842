"""One change of a source."""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A piece of a text: from one (line, column) to another; lines count from 1, columns are in
    characters."""

    line: int
    column: int
    end_line: int
    end_column: int

    def of_lines(self) -> Span:
        """The span in a text that consists of its own lines only."""
        return Span(1, self.column, self.end_line - self.line + 1, self.end_column)


@dataclass(frozen=True)
class Mutant:
    """A single change of a file.

    Attributes:
        function: The qualified name of the outermost function around it; "" at module level.
        operator: What kind of change it is.
        line: Where it is.
        last_line: Where the changed expression ends.
        start_line: Where the statement around it begins.
        scope: The first and the last line of the function or class around it; None for a module.
        original: The changed lines as they are, blanks normalised.
        mutant: The same lines after the change.
        span: What is replaced, and `replacement` by what.
        occurrence: How many equal changes the function has before this one.
    """

    file: str
    function: str
    operator: str
    line: int
    last_line: int
    start_line: int
    scope: tuple[int, int] | None
    original: str
    mutant: str
    span: Span
    replacement: str
    occurrence: int = 0

    @property
    def key(self) -> str:
        """Names the change, whatever line it moves to."""
        parts = (self.file, self.function, self.original, self.mutant, str(self.occurrence))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def source(self, text: str) -> str:
        """The file's text after the change."""
        return "\n".join(replaced(text.split("\n"), self.span, self.replacement))

    def diff(self, text: str) -> str:
        """The change as a unified diff of the file's text."""
        new = self.source(text)
        lines = difflib.unified_diff(
            text.splitlines(), new.splitlines(), self.file, self.file, lineterm="", n=2
        )
        return "\n".join(lines)


def replaced(lines: list[str], span: Span, text: str) -> list[str]:
    """The lines with another text in the place of a span; their number stays."""
    missing = span.end_line - span.line - text.count("\n")
    head = lines[span.line - 1][: span.column]
    tail = lines[span.end_line - 1][span.end_column :]
    new = (head + text + tail).split("\n")
    return [*lines[: span.line - 1], *new, *[""] * missing, *lines[span.end_line :]]


def normalised(lines: list[str]) -> str:
    """Lines as one, with single blanks."""
    return " ".join(" ".join(lines).split())
