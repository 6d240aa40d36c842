"""The tables of docs/llm.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from statistics import fmean
from typing import Any

OURS_SHARED, SHARED = "ours, shared", "builder, shared"
"""Our and the builder's model with a cache that they share with its next value."""

_NO_TWINS = frozenset({"exact", OURS_SHARED, SHARED})


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table and an empty line."""
    lines = (f"| {' | '.join(map(str, cells))} |\n" for cells in (head, ["---"] * len(head), *rows))
    return "".join(lines) + "\n"


def best(ratios: Mapping[str, float]) -> float:
    """Ours by the fastest twin with a growing cache."""
    return max(ratio for name, ratio in ratios.items() if name not in _NO_TWINS)


def text(record: Mapping[str, Any]) -> str:
    """All tables of a record."""
    listed = ", ".join(f"{name} {each}" for name, each in record["versions"].items())
    found = f"{record['date']}: {listed}.\n\n"
    for title, steps in record["times"].items():
        first, *_ = steps.values()
        grown = (f"ours / {name}" for name in first["ratios"] if name not in (OURS_SHARED, SHARED))
        head = [title, "ours ms", *grown, f"{OURS_SHARED} / {SHARED}", "ours / best"]
        found += table(head, [_row(name, each) for name, each in steps.items()])
        mean = exp(fmean(log(best(each["ratios"])) for each in steps.values()))
        worst = max(each["difference"] for each in steps.values())
        found += f"Geometric mean of ours / best: {mean:.2f}. "
        found += f"Largest difference of logits: {worst:.1e} of the largest.\n\n"
    for precision, models in record["files"].items():
        head = [precision, *next(iter(models.values()))]
        found += table(head, [[name, *figures.values()] for name, figures in models.items()])
    rows = [[name, f"{1e3 * ms:.1f}", f"{by:.2f}"] for name, (ms, by) in record["cache"].items()]
    found += table(["free sizes of the cache", "µs of a write", "/ static"], rows)
    return found + _hub(record.get("hub"))


def _hub(models: Mapping[str, Any] | None) -> str:
    """The models of keras-hub and tunix."""
    if not models:
        return "keras-hub and tunix were not measured: there were no environments for them.\n"
    rows = []
    for title, model in models.items():
        nodes = model["nodes"]
        for name, step in model["steps"].items():
            ratios = [step["ratios"][kind] for kind in nodes]
            cells = [f"{step['ms']:.2f}", *(f"{each:.2f}" for each in ratios[1:])]
            rows.append([title, name, *cells, f"**{max(ratios[1:]):.2f}**", *nodes.values()])
    twins = [kind for kind in nodes if kind != "ours"]
    head = ["fp32, 1 thread", "step", "ours ms", *(f"ours / {each}" for each in twins)]
    return table([*head, "ours / best", *(f"nodes, {each}" for each in nodes)], rows)


def _row(name: str, step: Mapping[str, Any]) -> list[str]:
    ratios = dict(step["ratios"])
    shared = ratios.pop(SHARED) / ratios.pop(OURS_SHARED)
    cells = (f"{each:.2f}" for each in (step["ms"], *ratios.values(), shared))
    return [name, *cells, f"**{best(ratios):.2f}**"]
