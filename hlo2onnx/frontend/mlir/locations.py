"""Reads the JAX scope and the user's source line from MLIR locations."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import dropwhile
from pathlib import Path, PureWindowsPath

from jaxlib.mlir import ir

from hlo2onnx.ir.notes import split_scope

_TRANSFORM = re.compile(r"p?jit\(.*\)$")
_STRUCTURE = re.compile(
    r"while|body|cond|scan|branch_\d+_fun|closed_call|eval_jaxpr|checkpoint|remat\d*"
    r"|custom_[jv]+p_call|\w+\(.*\)"
)
"""Segments of a name stack that JAX makes itself."""
_MODULE = re.compile(r"(?:.*\.)?(\w+)\.__call__")


@dataclass(frozen=True)
class Frame:
    """One frame of the Python call stack that made an op.

    Attributes:
        filename: As in Python; "-" for an op of text without locations.
        line: Line in the file.
        function: Its qualified name ("Dense.__call__"); "" if unknown.
    """

    filename: str
    line: int
    function: str = ""

    @cached_property
    def source(self) -> str:
        """ "file:line". The path is relative to the working directory or to the package root, or
        only a file name. It is never absolute."""
        return f"{_relative(self.filename)}:{self.line}"

    @cached_property
    def is_of_library(self) -> bool:
        """Whether the file is an installed one, of Python itself or of hlo2onnx."""
        return _is_of_library(self.filename)

    @cached_property
    def text(self) -> str | None:
        """The source and the function; None for a file of hlo2onnx."""
        return None if _is_own(self.filename) else str(self)

    @cached_property
    def module(self) -> str:
        """The class of the module whose `__call__` the function is; "" if it is another function.

        Of libraries, only the layers of flax.nnx count: the other ones have named scopes, and
        classes whose `__call__` is a detail.
        """
        if self.is_of_library and not _NNX_LAYERS.search(self.filename):
            return ""
        match = _MODULE.fullmatch(self.function)
        return match[1] if match else ""

    def __str__(self) -> str:
        return f"{self.source} in {self.function}" if self.function else self.source


@dataclass(frozen=True)
class Origin:
    """The provenance of one op.

    Attributes:
        scope: JAX's name stack without the enclosing jit ("Dense_0/dot_general"), "" if unknown.
        frames: The call stack that made the op, the innermost frame first. JAX has removed its own
            frames.
    """

    scope: str = ""
    frames: tuple[Frame, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.scope or self.frames)

    @cached_property
    def modules(self) -> str:
        """Classes of the modules whose `__call__` made the op, the outermost first ("Net/Linear").

        "" if the name stack has scopes already.
        """
        if not all(map(_STRUCTURE.fullmatch, split_scope(self.scope)[:-1])):
            return ""
        found = [frame.module for frame in self.frames if frame.module]
        return "/".join(reversed(found))

    @cached_property
    def source(self) -> str:
        """ "file:line" of the innermost frame of the user's own code, or else of the innermost
        frame; "" if unknown."""
        users = (frame for frame in self.frames if not frame.is_of_library)
        frame = next(users, self.frames[0] if self.frames else None)
        return frame.source if frame else ""

    @cached_property
    def stack(self) -> Sequence[str]:
        """The frames as text, from the innermost to the outermost of the user's own code."""
        users = [i for i, frame in enumerate(self.frames) if not frame.is_of_library]
        within = self.frames[: users[-1] + 1] if users else self.frames
        texts = [text for frame in within if (text := frame.text) is not None]
        return [text for i, text in enumerate(texts) if text not in texts[i - 1 : i]]

    @cached_property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of nodes with this origin."""
        if not self.frames:
            return {}
        if len(self.stack) > 1 or self.frames[0].function:
            return {"jax.source": self.source, "jax.stack": "\n".join(self.stack)}
        return {"jax.source": self.source}

    def __str__(self) -> str:
        return "  ".join(text for text in (self.source, self.scope) if text) or "unknown location"


class Callers:
    """The call stack of a function. Many ops of the function have the same origin, so it remembers
    them.

    Args:
        frames: The innermost frame first.
    """

    def __init__(self, frames: tuple[Frame, ...] = ()) -> None:
        self._frames = frames
        self._known: dict[int, tuple[Origin, Origin]] = {}

    def around(self, own: Origin) -> Origin:
        """The origin of an op of the function, with the callers."""
        if not self._frames:
            return own
        known = self._known.get(id(own))
        if known is None:
            known = self._known[id(own)] = own, Origin(own.scope, own.frames + self._frames)
        return known[1]


_Stack = tuple[tuple[Frame, ...], str]
"""Frames, the innermost first, and the outermost name; "" if there is none."""


class OriginReader:
    """Reads the origins of one program's ops. Many have the same, and most share their callers, so
    it remembers both."""

    def __init__(self) -> None:
        self._known: dict[ir.Attribute, Origin] = {}
        self._stacks: dict[ir.Attribute, _Stack] = {}

    def __call__(self, location: ir.Location) -> Origin:
        """The origin of an op with this location."""
        key = location.attr  # equal locations have different hashes
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._read(location)
        return known

    def _read(self, location: ir.Location) -> Origin:
        if not isinstance(location, ir.NameLoc):
            frames, name = self._stack(location)
        else:  # the name stack, above the function names of frames
            (frames, _), name = self._stack(location.child_loc), location.name_str
        return Origin("/".join(dropwhile(_TRANSFORM.match, split_scope(name))), frames)

    def _stack(self, location: ir.Location) -> _Stack:
        calls = []
        while isinstance(location, ir.CallSiteLoc) and location.attr not in self._stacks:
            calls.append(location)
            location = location.caller
        frames, name = self._stacks.get(location.attr) or _innermost(location)
        for call in reversed(calls):
            inner, inner_name = _innermost(call.callee)
            frames, name = inner + frames, inner_name or name
            self._stacks[call.attr] = frames, name
        return frames, name


def _innermost(location: ir.Location) -> _Stack:
    """The innermost frame of a location, if it has one, and the outermost name in the location."""
    frames: list[Frame] = []
    names: list[str] = []
    pending: list[tuple[object, str]] = [(location, "")]
    while pending:
        here, function = pending.pop()
        if isinstance(here, ir.NameLoc):
            names.append(here.name_str)
            pending.append((here.child_loc, here.name_str))
        elif isinstance(here, ir.CallSiteLoc):
            pending.append((here.callee, ""))
        elif isinstance(here, ir.FusedLoc):
            pending += [(each, "") for each in reversed(list(here.locations))]
        elif isinstance(here, ir.FileLineColLoc):
            frames.append(Frame(here.filename, here.start_line, function))
    return tuple(frames[:1]), next(iter(names), "")


def origin_of(location: ir.Location) -> Origin:
    """Reads scope and call stack from an MLIR location."""
    return OriginReader()(location)


def frames_of(location: ir.Location) -> list[Frame]:
    """The call stack in an MLIR location, the innermost frame first."""
    return list(origin_of(location).frames)


def argument_name(location: ir.Location) -> str:
    """JAX's name of a function argument ("params['w']"); "" if it has none."""
    return location.name_str if isinstance(location, ir.NameLoc) else ""


_OWN = Path(__file__).resolve().parents[2]
_INSTALLED = re.compile(r"[\\/](site-packages|dist-packages|lib[\\/]python3\.\d+)[\\/]|^<frozen ")
_PACKAGES = re.compile(r".*[\\/](?:site-packages|dist-packages)[\\/]")
_NNX_LAYERS = re.compile(r"[\\/]flax[\\/]nnx[\\/]nn[\\/]")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")


@functools.lru_cache(maxsize=4096)
def _is_own(filename: str) -> bool:
    """Whether a file is one of hlo2onnx, which lowers functions in their users' stead."""
    return Path(filename).is_relative_to(_OWN)


@functools.lru_cache(maxsize=4096)
def _is_of_library(filename: str) -> bool:
    return _INSTALLED.search(filename) is not None or _is_own(filename)


@functools.lru_cache(maxsize=4096)
def _relative(filename: str) -> str:
    """A path relative to the working directory or to the package root, or else the file name."""
    if filename == "-":  # MLIR's own position in text that carries no locations
        return "input"
    if not _ABSOLUTE.match(filename):
        return filename
    roots = [Path.cwd(), *map(Path, sys.path)]
    for root in sorted(roots, key=lambda root: -len(root.parts)):
        if root.is_absolute() and root.parent != root and Path(filename).is_relative_to(root):
            return Path(filename).relative_to(root).as_posix()
    if package := _PACKAGES.match(filename):
        return filename[package.end() :].replace("\\", "/")
    return PureWindowsPath(filename).name
