"""Measures benchmarks, each in a process of its own, and prints a table for each group.

    python -m tools.bench                              every group
    python -m tools.bench large_arrays                 one group
    python -m tools.bench 'segment*' dense/vit         some benchmarks
    python -m tools.bench linear_algebra --write       ... and into docs/speed.md
    python -m tools.bench decompositions --write       ... and into docs/linear_algebra.md

ONNX Runtime and XLA take turns in blocks of calls. A pause comes before each block, because the
threads of an idle session spin for a while. Figures are medians. XLA's time varies by tens of
percent between runs, so compare only ratios of one run. twins has networks in PyTorch in place of
XLA, decompositions has residuals as well, calls the microseconds beside `session.run`, and memory
the peak with gigabytes of weights. The exit code is 1 if a program fails or is unlike XLA.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import ModuleType

from tools import ROOT, command_line, environment
from tools.bench.benchmark import Benchmark
from tools.bench.page import line, mean_ratio, write

GROUPS = (
    *("dense", "twins", "large_arrays", "linear_algebra", "decompositions", "random_draws"),
    *("calls", "memory"),
)
"""Modules with BENCHMARKS and perhaps COLUMNS, a PAGE and a function `measure` of their own."""

TIMES = ("ours ms", "XLA ms", "ours / XLA", "XLA limit", "nodes", "translation s", "max error")


def module_of(group: str) -> ModuleType:
    """The module of a group."""
    return importlib.import_module(f"tools.bench.{group}")


def chosen(group: str, patterns: Sequence[str]) -> dict[str, Benchmark]:
    """The benchmarks of a group that a pattern names, by group, name or both."""
    return {
        name: benchmark
        for name, benchmark in module_of(group).BENCHMARKS.items()
        if any(
            fnmatchcase(key, pattern)
            for key in (group, name, f"{group}/{name}")
            for pattern in patterns or ["*"]
        )
    }


def row(group: str, name: str) -> dict[str, str]:
    """The figures of a benchmark, measured in this process."""
    module = module_of(group)
    measure = getattr(module, "measure", None) or module_of("measure").measure
    figures: dict[str, str] = measure(module.BENCHMARKS[name])
    return figures


def row_of_process(group: str, name: str) -> dict[str, str]:
    """The figures of a benchmark, measured in a process of its own; none where it fails."""
    command = [sys.executable, "-m", "tools.bench", "--row", f"{group}/{name}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment())
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1]) if not done.returncode else {}
    return found


def run(group: str, given: argparse.Namespace) -> bool:
    """Measures the chosen benchmarks of a group; returns whether all are right."""
    module, right = module_of(group), True
    columns = getattr(module, "COLUMNS", TIMES)
    rows: dict[str, Mapping[str, str]] = {}
    print(f"\n{group}\n{line('program', columns)}\n{line('---', ['---'] * len(columns))}")
    for name, benchmark in chosen(group, given.names).items():
        figures = row_of_process(group, name)
        right &= bool(figures) and "DIFFERS" not in figures.values()
        rows[benchmark.title] = figures or {columns[0]: "fails"}
        print(
            line(benchmark.title, [rows[benchmark.title].get(c, "") for c in columns]), flush=True
        )
    print(mean_ratio(rows))
    if given.write and rows:
        titles = [benchmark.title for benchmark in module.BENCHMARKS.values()]
        page = ROOT / "docs" / getattr(module, "PAGE", "speed.md")
        write(page, group, columns, rows, titles)
    return right


def main(argv: Sequence[str] | None = None) -> int:
    parser = command_line("bench", __doc__)
    add = parser.add_argument
    add("names", nargs="*", help=f"groups ({', '.join(GROUPS)}), benchmarks or patterns of them")
    add("--write", action="store_true", help="the rows into their page; other rows stay")
    add("--row", metavar="GROUP/NAME", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.row:
        print(json.dumps(row(*given.row.split("/"))), flush=True)
        return 0
    groups = [group for group in GROUPS if chosen(group, given.names)]
    if not groups:
        parser.error("no benchmark has such a name")
    right = [run(group, given) for group in groups]
    return int(not all(right))


if __name__ == "__main__":
    sys.exit(main())
