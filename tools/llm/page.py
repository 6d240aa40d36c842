"""The tables of docs/llm.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log
from statistics import fmean
from typing import Any

SHARED = "builder, shared"
"""The builder's model with the cache that it shares with its next value."""

Figures = Mapping[str, Mapping[str, float]]


def line(*cells: object) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(head: Iterable[str], rows: Iterable[str]) -> str:
    """A table and an empty line."""
    titles = list(head)
    return "\n".join([line(*titles), line(*["---"] * len(titles)), *rows, "", ""])


def best(figures: Figures) -> float:
    """Ours by the fastest twin with a growing cache."""
    return max(each["ratio"] for name, each in figures.items() if name not in ("ours", SHARED))


def row(title: str, figures: Figures) -> str:
    """A line: our milliseconds, ours by each twin, and by the fastest one."""
    twins = [f"{each['ratio']:.2f}" for name, each in figures.items() if name != "ours"]
    return line(title, f"{figures['ours']['ms']:.2f}", *twins, f"**{best(figures):.2f}**")


def text(record: Mapping[str, Any]) -> str:
    """All tables of a record."""
    listed = ", ".join(f"{name} {each}" for name, each in record["versions"].items())
    found = f"{record['date']}: {listed}.\n\n"
    for precision, by_threads in record["times"].items():
        for threads, steps in by_threads.items():
            first = next(iter(steps.values()))
            head = [f"{precision}, threads: {threads}", "ours ms"]
            head += [f"ours / {name}" for name in first if name != "ours"] + ["ours / best"]
            found += table(head, [row(title, figures) for title, figures in steps.items()])
            mean = exp(fmean(log(best(figures)) for figures in steps.values()))
            worst = max(each["difference"] for row in steps.values() for each in row.values())
            found += f"Geometric mean of ours / best: {mean:.2f}. "
            found += f"Largest difference of logits: {worst:.1e} of the largest.\n\n"
    for precision, models in record["files"].items():
        head = [precision, "nodes", "MB after load", "MB after 200 tokens", "same tokens"]
        rows = (
            line(name, each["nodes"], f"{each['load']:.0f}", f"{each['tokens']:.0f}", each[head[4]])
            for name, each in models.items()
        )
        found += table(head, rows)
    rows = (
        line(name, f"{1e3 * each['ms']:.1f}", f"{each['ratio']:.2f}")
        for name, each in record["cache"].items()
    )
    return found + table(["free sizes of the cache", "µs", "/ static"], rows)
