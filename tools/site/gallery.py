"""The gallery: a card for each program of docs/zoo.json, with the picture of its graph."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from typing import Any

from tools import ROOT
from tools.site.drawing import KINDS
from tools.zoo.program import Program, load_all


def gallery() -> str:
    """The cards by subject, and what the colours mean, in Markdown."""
    results = json.loads((ROOT / "docs" / "zoo.json").read_text(encoding="utf-8"))
    subjects: dict[str, list[Program]] = defaultdict(list)
    for item in load_all().values():
        if item.name in results:
            subjects[sys.modules[item.build.__module__].__doc__.splitlines()[0]].append(item)
    parts = [
        " ".join(
            f'<span class="kind" style="--kind: {c}">{t}</span>' for t, (c, _) in KINDS.items()
        )
    ]
    for subject, items in sorted(subjects.items()):
        parts.append(f'## {subject.rstrip(".")}\n\n<div class="grid cards" markdown>')
        for item in sorted(items, key=lambda item: (item.package.lower(), item.name)):
            parts.append(_card(item, results[item.name]))
        parts.append("</div>")
    return "\n\n".join(parts)


def _card(item: Program, result: dict[str, Any]) -> str:
    picture = f"![Graph of {item.name}](images/zoo/{item.name}.svg){{ loading=lazy }}"
    facts = [f"{result['nodes']:,} nodes", f"error {result['max_error']:.1g}"]
    if result["xla"]:
        facts.append(f"**{result['ort'] / result['xla']:.2g} ×** the time of XLA")
    return (
        f"- {picture}\n\n"
        f"    **{item.package}** {result['version']}: {item.summary} (`{item.name}`)\n\n"
        f"    {' · '.join(facts if result['ok'] else ['fails'])}"
    )
