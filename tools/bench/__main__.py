"""Measures benchmarks, each in a process of its own, and prints a table for each group.

    python -m tools.bench                              every group
    python -m tools.bench large_arrays                 one group
    python -m tools.bench 'segment*' dense/vit         some benchmarks
    python -m tools.bench dense --twins DIR --peer PYTHON     beside PyTorch and jax2onnx
    python -m tools.bench executions --envs DIR        programs of the zoo
    python -m tools.bench linear_algebra --write       ... and into docs/speed.md
    python -m tools.bench linear_algebra --against OLD       beside an earlier output of it

In dense, large_arrays, linear_algebra and random_draws, ONNX Runtime and XLA take turns in blocks
of calls. A pause comes before each block, because the threads of an idle session spin for a while.
Figures are medians. XLA's time varies by tens of percent between runs, so compare only ratios of
one run. translation counts seconds of translations, executions the nodes that run in a call, calls
the microseconds beside `session.run`, and memory the peak with gigabytes of weights. `--twins` is
where `tools.twins` wrote, `--peer` the interpreter of an environment with jax2onnx, `--envs` where
`tools.zoo` made environments; without it programs of the zoo are left out. The exit code is 1 if a
program fails or gives other numbers than XLA.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType

from tools import ROOT, environment
from tools.bench.benchmark import Benchmark
from tools.bench.page import cells_of, geometric_mean, line, mean_ratio, write

PAGE = ROOT / "docs" / "speed.md"
GROUPS = (
    *("dense", "large_arrays", "linear_algebra", "random_draws"),
    *("translation", "executions", "calls", "memory"),
)
"""Modules with BENCHMARKS, COLUMNS and perhaps a function `measure` of their own."""

TIMES = ("ours ms", "XLA ms", "ours / XLA", "XLA limit", "nodes", "translation s", "max error")


def module_of(group: str) -> ModuleType:
    """The module of a group."""
    return importlib.import_module(f"tools.bench.{group}")


def chosen(group: str, patterns: Sequence[str]) -> dict[str, Benchmark]:
    """The benchmarks of a group that a pattern names, by group, name or both."""
    if not patterns:
        return dict(module_of(group).BENCHMARKS)
    return {
        name: benchmark
        for name, benchmark in module_of(group).BENCHMARKS.items()
        if any(fnmatchcase(key, p) for key in (group, name, f"{group}/{name}") for p in patterns)
    }


def row(group: str, name: str, given: argparse.Namespace) -> dict[str, str]:
    """The figures of a benchmark, measured in this process."""
    module = module_of(group)
    measure = getattr(module, "measure", None)
    if measure is None:
        measure = importlib.import_module("tools.bench.measure").measure
    figures: dict[str, str] = measure(name, module.BENCHMARKS[name], given)
    return figures


def row_of_process(
    group: str, name: str, benchmark: Benchmark, given: argparse.Namespace
) -> dict[str, str]:
    """The figures of a benchmark, measured in a process of its own; none where it fails."""
    python: str | Path = sys.executable
    if benchmark.zoo:
        from tools.zoo.environments import environment_of
        from tools.zoo.program import load_all

        python = given.envs / environment_of(load_all()[name]).name / "bin" / "python"
    options = [f"--{key}={getattr(given, key)}" for key in ("twins", "peer") if getattr(given, key)]
    command = [python, "-m", "tools.bench", "--row", f"{group}/{name}", *options]
    variables = environment(KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=variables)
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1]) if not done.returncode else {}
    return found


def run(group: str, given: argparse.Namespace) -> bool:
    """Measures the chosen benchmarks of a group; returns whether all are right."""
    module, right = module_of(group), True
    columns = getattr(module, "COLUMNS", TIMES)
    rows: dict[str, Mapping[str, str]] = {}
    print(f"\n{group}\n{line('program', columns)}\n{line('---', ['---'] * len(columns))}")
    for name, benchmark in chosen(group, given.names).items():
        if benchmark.zoo and not given.envs:
            continue
        figures = row_of_process(group, name, benchmark, given)
        right &= bool(figures) and "DIFFERS" not in figures.values()
        rows[benchmark.title] = figures or {columns[0]: "fails"}
        print(
            line(benchmark.title, [rows[benchmark.title].get(c, "") for c in columns]), flush=True
        )
    print(mean_ratio(rows))
    if given.against:
        figure, old = getattr(module, "FIGURE", "ours ms"), cells_of(given.against.read_text())
        both = [title for title in rows if figure in rows[title] and old.get(title, {}).get(figure)]
        if both:
            now, before = ([part[title][figure] for title in both] for part in (rows, old))
            factor = geometric_mean(now) / geometric_mean(before)
            print(f"\n{len(both)} programs: {figure} is {factor:.3f} times that of before")
    if given.write and rows:
        titles = [benchmark.title for benchmark in module.BENCHMARKS.values()]
        write(PAGE, group, columns, rows, titles)
    return right


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("names", nargs="*", help=f"groups ({', '.join(GROUPS)}), benchmarks or patterns of them")
    add("--twins", type=Path, metavar="DIR", help="models of tools.twins")
    add("--peer", type=Path, metavar="PYTHON", help="interpreter with jax2onnx")
    add("--envs", type=Path, metavar="DIR", help="environments of tools.zoo")
    add("--write", action="store_true", help=f"the rows into {PAGE.name}; other rows stay")
    add("--against", type=Path, metavar="FILE", help="an earlier output to compare with")
    add("--row", metavar="GROUP/NAME", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.row:
        print(json.dumps(row(*given.row.split("/"), given)), flush=True)
        return 0
    groups = [group for group in GROUPS if chosen(group, given.names)]
    if not groups:
        parser.error("no benchmark has such a name")
    right = [run(group, given) for group in groups]
    return int(not all(right))


if __name__ == "__main__":
    sys.exit(main())
