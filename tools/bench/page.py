"""Tables of benchmarks in pages of docs/, a section for each group."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from tools.bench.timing import THREADS

_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def line(title: str, cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {title} | {' | '.join(cells)} |"


def _cells_of(text: str) -> dict[str, dict[str, str]]:
    """The cells of the tables in a text, by title and column."""
    found: dict[str, dict[str, str]] = {}
    columns: list[str] = []
    for each in text.splitlines():
        title, *cells = [cell.strip() for cell in each.strip("|").split("|")]
        if title == "program":
            columns = cells
        elif each.startswith("|") and title != "---":
            found[title] = dict(zip(columns, cells, strict=True))
    return found


def mean_ratio(rows: Mapping[str, Mapping[str, str]]) -> str:
    """Lines with the geometric means of ours / XLA and ours / twin, as far as a table has them."""
    found = ""
    for column in ("ours / XLA", "ours / twin"):
        if ratios := list(filter(None, (cells.get(column) for cells in rows.values()))):
            mean = np.exp(np.mean(np.log([float(each) for each in ratios])))
            found += f"\nGeometric mean of {column}: {mean:.2f}"
    return found


def write(
    page: Path,
    group: str,
    columns: Sequence[str],
    rows: Mapping[str, Mapping[str, str]],
    order: Sequence[str],
) -> None:
    """Writes rows into the table of a group; its other rows stay, and so does the rest of the page.

    Args:
        rows: Cells by title and column.
        order: The titles that the table may have.
    """
    old = page.read_text(encoding="utf-8")
    sections = {name: body.strip() for name, body in _SECTION.findall(old)}
    title = group.replace("_", " ").capitalize()
    merged = {**_cells_of(sections.get(title, "")), **rows}
    lines = [line("program", columns), line("---", ["---"] * len(columns))]
    lines += [
        line(each, [merged[each].get(c, "") for c in columns]) for each in order if each in merged
    ]
    lines.append(mean_ratio({each: merged[each] for each in order if each in merged}))
    runtime = f"{os.cpu_count()} cores, {THREADS} threads, onnxruntime {version('onnxruntime')}"
    head = f"`python -m tools.bench {group} --write`, jaxlib {version('jaxlib')}, {runtime}:"
    sections[title] = "\n".join([head, "", *lines]).strip()
    parts = [old.partition("\n## ")[0].strip() + "\n"]
    parts += [f"## {name}\n\n{body}\n" for name, body in sections.items()]
    page.write_text("\n".join(parts), encoding="utf-8")
