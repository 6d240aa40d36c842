"""The benchmarks: all times against XLA in docs/speed.md and docs/zoo.json, as bars."""

from __future__ import annotations

import json
import math
import re
from html import escape

from tools import ROOT

DOCS = ROOT / "docs"
LOW, HIGH = 1 / 30, 300
"""The ends of the scale, which is logarithmic. Programs beyond have bars up to the end."""

BANDS = {"faster": (0, 1), "1 to 2": (1, 2), "2 to 10": (2, 10), "over 10": (10, math.inf)}


def benchmarks() -> str:
    """A summary of the groups, and the bars of each, in Markdown."""
    groups = {**speeds((DOCS / "speed.md").read_text(encoding="utf-8")), "Zoo": zoo()}
    parts = [_summary(groups)]
    for title, ratios in groups.items():
        rows = "".join(_bar(name, ratios[name]) for name in sorted(ratios, key=ratios.__getitem__))
        parts.append(
            f'## {title}\n\n<table class="bars" style="--one: {_place(1):.1f}%">{rows}</table>'
        )
    return "\n\n".join(parts)


def speeds(page: str) -> dict[str, dict[str, float]]:
    """`ours / XLA` of each program, by section. Of a section with several versions of jaxlib, the
    last one."""
    groups: dict[str, dict[str, float]] = {}
    for section in page.split("\n## ")[1:]:
        title = section.partition("\n")[0].partition(", jaxlib")[0]
        rows = [re.split(r" *\| *", line)[1:-1] for line in re.findall(r"^\|.*$", section, re.M)]
        if rows and "ours / XLA" in rows[0]:
            column = rows[0].index("ours / XLA")
            groups[title] = {row[0]: float(row[column]) for row in rows[2:]}
    return groups


def zoo() -> dict[str, float]:
    """The same of the zoo's programs that have times."""
    results = json.loads((DOCS / "zoo.json").read_text(encoding="utf-8")).values()
    return {item["name"]: item["ort"] / item["xla"] for item in results if item["xla"]}


def _summary(groups: dict[str, dict[str, float]]) -> str:
    lines = [f"| | programs | {' | '.join(BANDS)} | geometric mean |", "| --- " * 7 + "|"]
    for title, ratios in groups.items():
        counts = [sum(low <= x < high for x in ratios.values()) for low, high in BANDS.values()]
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        cells = [title, len(ratios), *counts, f"{mean:.2f}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _bar(name: str, ratio: float) -> str:
    start, end = sorted((_place(ratio), _place(1)))
    kind = "win" if ratio < 1 else "loss"
    bar = f'<i class="{kind}" style="left: {start:.1f}%; width: {max(end - start, 0.5):.1f}%"></i>'
    return f'<tr><th scope="row">{escape(name)}</th><td>{ratio:.2f}</td><td>{bar}</td></tr>'


def _place(ratio: float) -> float:
    """Where on the scale, in percent."""
    return 100 * math.log(min(max(ratio, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
