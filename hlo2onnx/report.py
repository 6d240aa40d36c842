"""The report of a translation, for people and for tools."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FIXED_KEY = (
    "random numbers are the same in every run: a key is a constant of the program; pass it as an"
    " argument"
)
SHARDINGS_DROPPED = "shardings are dropped: the model runs on one device"


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
        casts: Cast nodes that legalization added, by operator and type ("Conv f64").
        notes: What a user should know, such as dropped shardings or a changed opset. No note is
            there twice.
        seconds: Wall-clock seconds per stage.
    """

    source: str = ""
    target: str = ""
    opset: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    nodes: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    casts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Adds a note unless it is there."""
        if text not in self.notes:
            self.notes.append(text)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain JSON data."""
        return {
            name: dict(value) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }

    def to_json(self) -> str:
        """The report as JSON text."""
        return to_json(self.as_dict())

    def __str__(self) -> str:
        lines = [
            f"source   {self.source}",
            f"target   {self.target}, opset {self.opset}",
            f"ops      {sum(self.ops.values())} StableHLO -> {sum(self.nodes.values())} ONNX nodes",
            f"nodes    {_counts(self.nodes) or 'none'}",
        ]
        if self.rules:
            lines.append(f"rules    {_counts(self.rules)}")
        if self.casts:
            lines.append(f"casts    {_counts(self.casts)}")
        lines += [f"note     {note}" for note in self.notes]
        if self.seconds:
            stages = ", ".join(f"{stage} {time:.2f}" for stage, time in self.seconds.items())
            lines.append(f"seconds  {sum(self.seconds.values()):.2f}: {stages}")
        return "\n".join(lines)


def to_json(data: Any) -> str:
    """Data as JSON text. Infinities and NaN are strings, because JSON has no such numbers."""
    return json.dumps(_without_nonfinite(data), indent=2, sort_keys=True)


def _without_nonfinite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else str(data)
    if isinstance(data, Mapping):
        return {key: _without_nonfinite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_nonfinite(item) for item in data]
    return data


def _counts(counter: Counter[str]) -> str:
    ordered = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {name}" for name, count in ordered)
