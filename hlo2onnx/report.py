"""What a translation did, for people and for tools."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

SHARDINGS_DROPPED = "shardings are dropped: the model runs on one device"


@dataclass
class Report:
    """Facts gathered while a program is translated.

    Attributes:
        source: What was translated.
        target: Name of the runtime the model is made for.
        opset: ONNX opset of the model.
        ops: How often each StableHLO op was met.
        nodes: How often each ONNX operator stands in the model.
        rules: How often each raising rule fired.
        casts: How many Cast nodes legalization added, by operator and type ("Conv f64").
        notes: What a user should know (dropped shardings, changed opset, ...), each once.
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
        return asdict(self)

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.as_dict(), indent=2, sort_keys=True)

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        lines = [
            f"source   {self.source}",
            f"target   {self.target}, opset {self.opset}",
            f"ops      {sum(self.ops.values())} StableHLO -> {sum(self.nodes.values())} ONNX nodes"
            f" in {total:.2f} s",
            f"nodes    {_counts(self.nodes)}",
        ]
        if self.rules:
            lines.append(f"rules    {_counts(self.rules)}")
        if self.casts:
            lines.append(f"casts    {_counts(self.casts)}")
        lines += [f"note     {note}" for note in self.notes]
        return "\n".join(lines)


def _counts(counter: Counter[str]) -> str:
    ordered = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {name}" for name, count in ordered)
