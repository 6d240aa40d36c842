"""Reads the JAX scope and the user's source line from MLIR locations."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jaxlib.mlir import ir

_TRANSFORM = re.compile(r"p?jit\(.*\)$")


@dataclass(frozen=True)
class Origin:
    """The provenance of one op.

    Attributes:
        scope: JAX's name stack without the enclosing jit ("Dense_0/dot_general"), "" if unknown.
        source: "file:line", "" if unknown. The path is relative to the working directory or to the
            package root, or only a file name. It is never absolute.
    """

    scope: str = ""
    source: str = ""

    def __bool__(self) -> bool:
        return bool(self.scope or self.source)

    def __str__(self) -> str:
        return "  ".join(text for text in (self.source, self.scope) if text) or "unknown location"


@dataclass(frozen=True)
class Frame:
    """One frame of the Python call stack that made an op.

    Attributes:
        filename: As in Python; "-" for an op of text without locations.
        line: Line in the file.
    """

    filename: str
    line: int

    @property
    def source(self) -> str:
        """ "file:line", as in `Origin`."""
        return f"{_relative(self.filename)}:{self.line}"

    @property
    def is_of_library(self) -> bool:
        """Whether the file is an installed one."""
        return not {"site-packages", "dist-packages"}.isdisjoint(Path(self.filename).parts)


def origin_of(location: ir.Location) -> Origin:
    """Reads scope and source line from an MLIR location.

    The innermost frame of a call stack counts. JAX has removed its own frames.
    """
    names: list[str] = []
    source = ""
    for here in _leaves(location):
        if isinstance(here, ir.NameLoc):
            names.append(here.name_str)
        elif not source:
            source = f"{_relative(here.filename)}:{here.start_line}"
    return Origin(_scope(names), source)


def frames_of(location: ir.Location) -> list[Frame]:
    """The call stack in an MLIR location, the innermost frame first."""
    return [
        Frame(here.filename, here.start_line)
        for here in _leaves(location, with_callers=True)
        if isinstance(here, ir.FileLineColLoc)
    ]


def _leaves(
    location: ir.Location, with_callers: bool = False
) -> Iterator[ir.NameLoc | ir.FileLineColLoc]:
    """The `NameLoc`s and `FileLineColLoc`s of a location.

    Of a call stack, these are in the innermost frame, and then in its callers if wanted.
    """
    pending: list[object] = [location]
    while pending:
        here = pending.pop(0)
        if isinstance(here, ir.NameLoc):
            yield here
            pending.insert(0, here.child_loc)
        elif isinstance(here, ir.CallSiteLoc):
            pending[:0] = [here.callee, here.caller] if with_callers else [here.callee]
        elif isinstance(here, ir.FusedLoc):
            pending[:0] = list(here.locations)
        elif isinstance(here, ir.FileLineColLoc):
            yield here


def argument_name(location: ir.Location) -> str:
    """JAX's name of a function argument ("params['w']"); "" if it has none."""
    return location.name_str if isinstance(location, ir.NameLoc) else ""


def _scope(names: list[str]) -> str:
    """The name stack. JAX puts it in the outermost name, above the function names of frames."""
    if not names:
        return ""
    segments = split_scope(names[0])
    while segments and _TRANSFORM.match(segments[0]):
        segments.pop(0)
    return "/".join(segments)


def split_scope(scope: str) -> list[str]:
    """Splits a name stack at the slashes outside of parentheses."""
    segments, depth, start = [], 0, 0
    for position, char in enumerate(scope):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "/" and depth <= 0:
            segments.append(scope[start:position])
            start = position + 1
    segments.append(scope[start:])
    return [segment for segment in segments if segment]


@functools.lru_cache(maxsize=4096)
def _relative(filename: str) -> str:
    """A path relative to the working directory or to the package root, or else the file name."""
    if filename == "-":  # MLIR's own position in text that carries no locations
        return "input"
    path = Path(filename)
    if not path.is_absolute():
        return filename
    roots = [
        Path.cwd(),
        *(Path(entry) for entry in sys.path if entry and Path(entry).is_absolute()),
    ]
    for root in sorted(roots, key=lambda root: -len(root.parts)):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    for marker in ("site-packages", "dist-packages"):
        if marker in path.parts:
            return Path(*path.parts[path.parts.index(marker) + 1 :]).as_posix()
    return path.name
