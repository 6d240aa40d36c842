"""Times groups of programs on 10^2 to 10^7 elements, in ONNX Runtime and in XLA on the CPU.

    python -m tools.bench.growth                    every group
    python -m tools.bench.growth sort fft           some groups
    python -m tools.bench.growth --write            ... with docs/images/growth.svg and the table
                                                    in docs/speed.md

Each group runs in a process of its own. A size is left out if its calls would take seconds. The
exit code is 1 if a program fails or gives other numbers than XLA.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

import jax
import numpy as np

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram
from tools import ROOT, environment
from tools.bench.groups.case import Built
from tools.bench.growth.groups import GROUPS
from tools.bench.growth.plot import Point, picture
from tools.bench.page import write_growth
from tools.bench.timing import THREADS, medians

PAGE = ROOT / "docs" / "speed.md"
PICTURE = ROOT / "docs" / "images" / "growth.svg"
SIZES = tuple(10**exponent for exponent in range(2, 8))
LONGEST = 2.0
"""Seconds of a call. A size of which one would take longer is left out."""
STEEP_FROM = 10**5
"""Elements from which on slopes are compared: fewer take the time that a call takes to start."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("groups", nargs="*", help=f"default: all of {', '.join(GROUPS)}")
    parser.add_argument("--write", action="store_true", help=f"{PICTURE.name}, {PAGE.name}")
    parser.add_argument("--one", metavar="GROUP", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.one:
        for point in points(GROUPS[given.one]):
            print(json.dumps(asdict(point)), flush=True)
        return 0
    if unknown := set(given.groups) - GROUPS.keys():
        parser.error(f"unknown groups: {', '.join(sorted(unknown))}")
    found, right = {}, True
    for name in given.groups or GROUPS:
        command = [sys.executable, "-m", "tools.bench.growth", "--one", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment())
        right &= done.returncode == 0
        found[name] = [Point(**json.loads(line)) for line in done.stdout.splitlines()]
        print(f"{name}: {len(found[name])} sizes", file=sys.stderr, flush=True)
    found = {name: measured for name, measured in found.items() if measured}
    print(table(found))
    if given.write and found:
        PICTURE.write_text(picture(found), encoding="utf-8")
        title = "Milliseconds of a call by elements, for hlo2onnx and XLA"
        write_growth(PAGE, f"![{title}](images/{PICTURE.name})\n\n{table(found)}")
    return int(not right)


def points(build: Callable[[int], Built]) -> list[Point]:
    """The times of a group's program on each size.

    Raises:
        RuntimeError: The smallest one gives other numbers than XLA.
    """
    found: list[Point] = []
    for elements in SIZES:
        if found and _expected(found, elements) > LONGEST:
            break
        found.append(_measured(build, elements, verifies=not found))
    return found


def _expected(found: Sequence[Point], elements: int) -> float:
    """Seconds that a call will take, if they grow in proportion to the elements."""
    last = found[-1]
    return max(last.ours, last.xla) * elements / last.elements


def _measured(build: Callable[[int], Built], elements: int, verifies: bool) -> Point:
    function, args = build(elements)
    lowered = jax.jit(function).lower(*args)
    program = hlo2onnx.translate(lowered)
    if verifies and not (verdict := program.verify(*args)):
        raise RuntimeError(str(verdict))
    compiled, placed = lowered.compile(), jax.device_put(args)
    session = OrtProgram(program.model_proto.SerializeToString(), threads=THREADS).session
    feeds = to_model(program.input_names, program.flatten(*args))
    calls = [
        partial(session.run, None, feeds),
        lambda: jax.block_until_ready(compiled(*placed)),
    ]
    ours, xla = medians(calls, blocks=3, block_seconds=0.05, least=1)
    return Point(elements, ours, xla)


def slope(points: Sequence[Point], line: str) -> float:
    """The power of the number of elements by which the time of large arrays grows."""
    large = [point for point in points if point.elements >= STEEP_FROM]
    if len(large) < 2:
        return math.nan
    times = np.log([getattr(point, line) for point in large])
    return float(np.polyfit(np.log([point.elements for point in large]), times, 1)[0])


def table(groups: Mapping[str, Sequence[Point]]) -> str:
    """Ratios of the times, ours to XLA's, and the slopes, in Markdown."""
    titles = [f"10^{round(math.log10(size))}" for size in SIZES]
    steep = f"10^{round(math.log10(STEEP_FROM))}"
    lines = [
        f"Ours / XLA by elements. *Slope*: time grows with this power of the elements, from {steep}"
        " on.",
        "",
        f"| group | {' | '.join(titles)} | slope | XLA's slope |",
        f"| --- |{' --- |' * (len(titles) + 2)}",
    ]
    for name, found in groups.items():
        ratios = {point.elements: f"{point.ours / point.xla:.2f}" for point in found}
        slopes = [f"{slope(found, line):.2f}" for line in ("ours", "xla")]
        cells = [name, *(ratios.get(size, "") for size in SIZES), *slopes]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
