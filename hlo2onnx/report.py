"""Progress and report of a translation, for people and for tools."""

from __future__ import annotations

import json
import math
import platform
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

FIXED_KEY = (
    "random numbers are the same in every run: a key is a constant of the program; pass it as an"
    " argument"
)
SHARDINGS_DROPPED = "shardings are dropped: the model runs on one device"


WIDTH = 100
"""Columns of a report that is printed in Python."""

_INDENT = 9


@dataclass(frozen=True)
class WeightSizes:
    """Bytes of the constants of more than 16 elements.

    Attributes:
        before: In the program.
        after: In the model.
        reasons: If there are more in the model, the largest additions.
    """

    before: int = 0
    after: int = 0
    reasons: Sequence[str] = ()

    def items(self) -> list[str]:
        """The sizes and the reasons as texts; none without constants."""
        if not (self.before or self.after):
            return []
        sizes = f"{self.before:,} bytes in the program -> {self.after:,} in the model"
        return [sizes, *self.reasons]


@dataclass
class Report:
    """What a translation did.

    Attributes:
        source: Name of the program.
        target: Name of the runtime that the model is made for.
        opset: ONNX opset of the model.
        ops: Count of each StableHLO op in the program.
        nodes: Count of each ONNX operator in the model.
        rules: How often each rewrite rule fired.
        relaxed: How often each rule merged operators between which the program rounds to a half
            type and the model does not (`half="fast"`).
        casts: Cast nodes that the target needs, by operator and type ("Conv f64").
        expanded: Nodes that became other operators, because the target does not have them, or
            computes them wrongly; by operator and type ("Mod i64").
        fallback: Nodes that the runtime runs elsewhere than on the target's device, by operator,
            type and the control flow around them ("BitwiseXor u32 in Loop").
        weights: Bytes of the weights in the program and in the model, and why if there are more.
        notes: Notes for the user, such as dropped shardings or a changed opset, each once.
        seconds: Wall-clock seconds per stage.
        call_seconds: Estimate of a call's time on one core, from the costs of the target. It is
            within a factor of two for nine models of ten on the machine of the costs; another one
            may take several times as long for all. None: trips or sizes are unknown, or the target
            has no costs.
    """

    source: str = ""
    target: str = ""
    opset: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    nodes: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    relaxed: Counter[str] = field(default_factory=Counter)
    casts: Counter[str] = field(default_factory=Counter)
    expanded: Counter[str] = field(default_factory=Counter)
    fallback: Counter[str] = field(default_factory=Counter)
    weights: WeightSizes = WeightSizes()
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    call_seconds: float | None = None

    def note(self, text: str) -> None:
        """Adds a note unless it is there."""
        if text not in self.notes:
            self.notes.append(text)

    def as_dict(self) -> dict[str, object]:
        """The report as plain JSON data."""
        data: dict[str, object] = {
            name: dict(value) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }
        return data | {"weights": {**vars(self.weights), "reasons": list(self.weights.reasons)}}

    def to_json(self) -> str:
        """The report as JSON text."""
        return to_json(self.as_dict())

    def lines(
        self, width: int = WIDTH, lines: int | None = None, notes: int | None = None
    ) -> list[str]:
        """The report as lines of text.

        Args:
            width: Columns.
            lines: Shorten each list and each note to this many lines. None: they are complete.
            notes: Shorten the notes to this many entries.
        """
        counts = f"{sum(self.ops.values())} StableHLO -> {sum(self.nodes.values())} ONNX nodes"
        found = [
            *entry("source", [self.source], width, lines),
            *entry("target", [self.target, f"opset {self.opset}"], width, lines),
            *entry("ops", [counts], width, lines),
            *entry("nodes", _counts(self.nodes) or ["none"], width, lines),
        ]
        sections = {
            "rules": _counts(self.rules),
            "relaxed": _counts(self.relaxed),
            "casts": _counts(self.casts, "for "),
            "expanded": _counts(self.expanded),
            "on CPU": _counts(self.fallback),
            "weights": self.weights.items(),
        }
        for title, items in sections.items():
            if items:
                found += entry(title, items, width, lines)
        found += shortened([_note(note, width, lines) for note in self.notes], notes, "note     ")
        if self.call_seconds is not None:
            text = f"about {duration(self.call_seconds)} on one core"
            found += entry("call", [text], width, lines)
        if self.seconds:
            total = sum(self.seconds.values())
            stages = [f"{stage} {time:.2f}" for stage, time in self.seconds.items()]
            found += entry("seconds", [f"{total:.2f}: {stages[0]}", *stages[1:]], width, lines)
        return found

    def __str__(self) -> str:
        return "\n".join(self.lines())


def duration(seconds: float) -> str:
    """A duration in two digits and a fitting unit, such as "1.2 ms"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{float(f'{seconds / size:.2g}'):,g} {unit}"
    return f"{float(f'{seconds * 1e6:.2g}'):g} µs"


def to_json(data: object) -> str:
    """Data as JSON text. Infinities and NaN are strings, because JSON has no such numbers."""
    return json.dumps(_without_nonfinite(data), indent=2, sort_keys=True)


def _without_nonfinite(data: object) -> object:
    if isinstance(data, float):
        return data if math.isfinite(data) else str(data)
    if isinstance(data, Mapping):
        return {key: _without_nonfinite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_nonfinite(item) for item in data]
    return data


def entry(
    title: str, items: Sequence[str], width: int = WIDTH, lines: int | None = None
) -> list[str]:
    """A title and a list, wrapped between its items.

    Args:
        title: The title.
        items: The items.
        width: Columns.
        lines: Shorten the list to this many lines. The last one counts what is left out.
    """
    room = max(width - _INDENT, 20)
    rows = _filled(items, room)
    if lines is not None and len(rows) > lines:
        kept = sum(len(row) for row in rows[:lines])
        while len(rows) > lines and kept:
            rows = _filled([*items[:kept], f"... {len(items) - kept} more"], room)
            kept -= 1
    texts = [", ".join(row) for row in rows]
    return [
        f"{title if not index else '':{_INDENT}}{text}{',' if index + 1 < len(texts) else ''}"
        for index, text in enumerate(texts)
    ]


def shortened(lines: Sequence[str], limit: int | None, prefix: str) -> list[str]:
    """Some lines; with a limit, the first of them and a line that counts the others."""
    if limit is None or len(lines) <= limit:
        return list(lines)
    kept = limit - 1
    return [*lines[:kept], f"{prefix}... {len(lines) - kept} more"]


def _filled(items: Sequence[str], room: int) -> list[list[str]]:
    """Items in rows of at most `room` columns, counting ", " after each."""
    rows: list[list[str]] = [[]]
    used = 0
    for item in items:
        if rows[-1] and used + len(item) + 1 > room:
            rows.append([])
            used = 0
        rows[-1].append(item)
        used += len(item) + 2
    return rows


def _note(text: str, width: int, lines: int | None) -> str:
    return textwrap.fill(
        text,
        max(width, 40),
        initial_indent="note     ",
        subsequent_indent=" " * _INDENT,
        max_lines=lines,
        placeholder=" ...",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _counts(counter: Counter[str], link: str = "") -> list[str]:
    ordered = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    return [f"{count} {link}{name}" for name, count in ordered]


PACKAGES = ("hlo2onnx", "jax", "jaxlib", "onnx", "onnxruntime", "numpy")


def versions() -> dict[str, str]:
    """The versions of the packages, of Python and of the platform."""
    found = {name: _version(name) for name in PACKAGES}
    return found | {"python": platform.python_version(), "platform": platform.platform()}


def versions_text() -> str:
    """The same in one line."""
    return ", ".join(f"{name} {version}" for name, version in versions().items())


def _version(package: str) -> str:
    if package == "hlo2onnx":
        from hlo2onnx import __version__

        return __version__
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


Listener = Callable[[str], None]
"""Takes the name of the stage that begins."""

_LISTENER: ContextVar[Listener | None] = ContextVar("hlo2onnx_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Reports the stages that begin within the block to a listener."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def begin_stage(stage: str) -> None:
    """Tells the listener that a stage begins."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(stage)
