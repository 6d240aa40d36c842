"""docs/speed.md: a table for each group of benchmarks, and of dense for each jaxlib."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from tools.bench.timing import THREADS

HEAD = """\
# Speed

Written by `python -m tools.bench NAMES --write` in a checkout of the repository; do not edit. Below
each title is what the last run had. Figures are medians.

* *ours*: the model of hlo2onnx in ONNX Runtime.
* *twin*: the same architecture written in PyTorch (`tools/twins`), exported by torch.onnx and run
  in the same ONNX Runtime.
* *peer*: the model that jax2onnx makes of the same JAX function.
* *XLA*: its CPU backend. Its times vary by tens of percent from run to run, and by factors from
  version to version. For dense programs the ratio to the twin is the one to look at.
* *limit*: the ratio that the project wants to keep. The limits for XLA were set with jaxlib 0.10.
"""
_JAXLIB = "jaxlib "
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def line(title: str, cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {title} | {' | '.join(cells)} |"


def cells_of(text: str) -> dict[str, dict[str, str]]:
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


def geometric_mean(numbers: Sequence[str]) -> float:
    """The geometric mean of some cells."""
    return float(np.exp(np.mean(np.log([float(each.replace(",", "")) for each in numbers]))))


def mean_ratio(rows: Mapping[str, Mapping[str, str]]) -> str:
    """A line with the mean of ours / XLA; "" for a table without that column."""
    ratios = list(filter(None, (cells.get("ours / XLA") for cells in rows.values())))
    return f"\nGeometric mean of ours / XLA: {geometric_mean(ratios):.2f}" if ratios else ""


def write(
    page: Path,
    group: str,
    columns: Sequence[str],
    rows: Mapping[str, Mapping[str, str]],
    order: Sequence[str],
) -> None:
    """Writes rows into the table of a group; its other rows stay, and so do other sections.

    Args:
        rows: Cells by title and column.
        order: The titles that the table may have.
    """
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    sections = {name: body.strip() for name, body in _SECTION.findall(old)}
    jaxlib = f"{_JAXLIB}{version('jaxlib')}"
    title = jaxlib if group == "dense" else group.replace("_", " ").capitalize()
    merged = {**cells_of(sections.get(title, "")), **rows}
    lines = [line("program", columns), line("---", ["---"] * len(columns))]
    lines += [
        line(each, [merged[each].get(c, "") for c in columns]) for each in order if each in merged
    ]
    lines.append(mean_ratio({each: merged[each] for each in order if each in merged}))
    runtime = f"{os.cpu_count()} cores, {THREADS} threads, onnxruntime {version('onnxruntime')}"
    head = f"`python -m tools.bench {group} --write`, {jaxlib}, {runtime}:"
    sections[title] = "\n".join([head, "", *lines]).strip()
    parts = [HEAD, *(f"## {name}\n\n{sections[name]}\n" for name in sorted(sections, key=_rank))]
    page.write_text("\n".join(parts), encoding="utf-8")


def _rank(title: str) -> tuple[bool, list[int], str]:
    """Versions of jaxlib in order, then the groups."""
    is_version = title.startswith(_JAXLIB)
    numbers = [int(part) for part in title.removeprefix(_JAXLIB).split(".")] if is_version else []
    return not is_version, numbers, title
