"""Times groups of small programs in ONNX Runtime and in XLA on the CPU, as ratios within one run.

    python -m tools.bench.groups                           every group
    python -m tools.bench.groups large_arrays              one group
    python -m tools.bench.groups large_arrays 'segment*'   some programs of it
    python -m tools.bench.groups large_arrays --write      ... and its table in docs/speed.md

Each program runs in a process of its own; the runtimes take turns in blocks of calls. The exit code
is 1 if a program fails or gives other numbers than XLA.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import jax
import numpy as np

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram
from tools import ROOT, environment
from tools.bench import groups
from tools.bench.groups.case import Case
from tools.bench.page import write_group
from tools.bench.timing import THREADS, medians

PAGE = ROOT / "docs" / "speed.md"
HEADER = """\
| program | ours ms | XLA ms | ours / XLA | goal | nodes | translation s | max error |
| --- | --- | --- | --- | --- | --- | --- | --- |"""
HELPERS = {"case", "__main__"}


def names_of_groups() -> list[str]:
    """The modules of this package that hold cases."""
    found = [module.name for module in pkgutil.iter_modules([str(Path(groups.__file__).parent)])]
    return sorted(set(found) - HELPERS)


def cases_of(group: str) -> Mapping[str, Case]:
    """The cases of a group by name."""
    cases: Mapping[str, Case] = importlib.import_module(f"tools.bench.groups.{group}").CASES
    return cases


def row(case: Case) -> str:
    """Translates, verifies and times a program."""
    jax.config.update("jax_enable_x64", case.x64)
    function, args = case.build()
    lowered = jax.jit(function).lower(*args)
    start = time.perf_counter()
    program = hlo2onnx.translate(lowered)
    seconds = time.perf_counter() - start
    compiled, placed = lowered.compile(), jax.device_put(args)
    session = OrtProgram(program.model_proto.SerializeToString(), threads=THREADS).session
    feeds = to_model(program.input_names, program.flatten(*args))
    ours, xla = medians(
        [
            lambda: session.run(None, feeds),
            lambda: jax.block_until_ready(compiled(*placed)),
        ]
    )
    found = program.verify(*args)
    if not found:
        print(found, file=sys.stderr)
    cells = [
        case.title,
        f"{1e3 * ours:.3f}",
        f"{1e3 * xla:.3f}",
        f"{ours / xla:.2f}",
        f"{case.goal or ''}",
        f"{program.report.nodes.total()}",
        f"{seconds:.2f}",
        f"{found.max_error:.1e}" if found else "DIFFERS",
    ]
    return f"| {' | '.join(cells)} |"


def table(group: str, names: Sequence[str]) -> tuple[str, bool]:
    """The table of a group, and whether all its programs are right."""
    command = [sys.executable, "-m", "tools.bench.groups", group, "--row"]
    lines, ratios, right = [HEADER], [], True
    print(HEADER, flush=True)
    for name in names:
        done = subprocess.run(
            [*command, name], stdout=subprocess.PIPE, text=True, env=environment()
        )
        line = done.stdout.strip().rpartition("\n")[2] or f"| {name} | fails |"
        right &= done.returncode == 0 and "DIFFERS" not in line
        if done.returncode == 0:
            ratios.append(float(line.split("|")[4]))
        print(line, flush=True)
        lines.append(line)
    if ratios:
        lines += ["", f"Geometric mean of ours / XLA: {np.exp(np.mean(np.log(ratios))):.2f}"]
        print(*lines[-2:], sep="\n", flush=True)
    return "\n".join(lines), right


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.groups",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = names_of_groups()
    parser.add_argument("group", nargs="?", choices=known, help="default: all")
    parser.add_argument("programs", nargs="*", help="patterns of names; default: all")
    parser.add_argument("--write", action="store_true", help=f"the tables into {PAGE.name}")
    parser.add_argument("--row", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.row:
        print(row(cases_of(given.group)[given.row]), flush=True)
        return 0
    all_right = True
    for group in [given.group] if given.group else known:
        cases = cases_of(group)
        patterns = given.programs or ["*"]
        names = [name for name in cases if any(fnmatchcase(name, p) for p in patterns)]
        if not names:
            parser.error(f"no program fits; there are {', '.join(cases)}")
        print(f"\n{group}", flush=True)
        text, right = table(group, names)
        all_right &= right
        if given.write:
            write_group(PAGE, group, text)
    return int(not all_right)


if __name__ == "__main__":
    sys.exit(main())
