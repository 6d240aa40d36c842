"""docs/zoo.md, and the results that it shows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from tools import ROOT
from tools import write_page as write_text
from tools.zoo.environments import LEFT_OUT
from tools.zoo.program import Program, load_all
from tools.zoo.scatter import write_picture
from tools.zoo.worker import Result

DOCS = ROOT / "docs"
TIMES = ("ort", "xla", "slowness")
OF_TARGET = ("fallback", "copies")

HEAD = """\
Medians on {cores} cores, onnxruntime {onnxruntime}.

{right} of {all} programs are right, of {packages} packages.

{near} of {estimated} estimates of the report (*estimate*, one core) are between half and twice the
time, once the machine is taken into account: the [examples](gallery.md), which are other programs,
took {slowness} times their estimates there (the median).

![Estimated and measured times](images/estimates.svg)

| package | version | jaxlib | program | nodes | translation s | error | ORT ms | estimate ms | \
XLA ms | ORT / XLA |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def write_page(results: Iterable[Result], folder: Path = DOCS) -> None:
    """Puts results beside those of earlier runs, and writes the page anew.

    A result without times keeps those of an earlier run.
    """
    programs, path = load_all(), folder / "zoo.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    for result in results:
        before = known.get(result.name, {})
        times = {} if result.ort else {x: before[x] for x in TIMES if x in before}
        known[result.name] = {**asdict(result), "error": _first_line(result), **times}
        for field in OF_TARGET:
            del known[result.name][field]
    known = {name: known[name] for name in sorted(programs) if name in known}
    path.write_text(json.dumps(known, indent=1) + "\n")
    rows = [Result(**item) for item in known.values()]
    write_text(folder / "zoo.md", page(rows, programs))
    write_picture(rows, folder)


def page(rows: list[Result], programs: dict[str, Program]) -> str:
    """The page as Markdown."""
    rows = sorted(rows, key=lambda row: (programs[row.name].package.lower(), row.name))
    timed = [row for row in rows if row.ort and row.estimate]
    text = HEAD.format(
        cores=os.cpu_count(),
        onnxruntime=version("onnxruntime"),
        right=sum(row.ok for row in rows),
        all=len(rows),
        packages=len({programs[row.name].package for row in rows}),
        near=sum(0.5 <= row.expected / row.ort <= 2 for row in timed),
        estimated=len(timed),
        slowness=" or ".join(sorted({f"{row.slowness:.2f}" for row in timed})),
    )
    text += "".join(_row(row, programs[row.name]) for row in rows)
    wider = [item for item in map(programs.get, (r.name for r in rows)) if item and item.reason]
    if wider:
        text += "\n## Larger errors that are right\n\n"
        text += "".join(f"* `{x.name}`, up to {x.tolerance:.0e}: {x.reason}\n" for x in wider)
    text += "\n## Left out\n\nThey do not run on JAX 0.10 and newer:\n\n"
    text += "".join(f"* {name} {why}\n" for name, why in sorted(LEFT_OUT.items()))
    failed = [row for row in rows if not row.ok]
    if failed:
        text += "\n## Failures\n\n"
        text += "".join(f"* `{row.name}`: {_why(row, programs[row.name])}\n" for row in failed)
    return text


def _row(row: Result, item: Program) -> str:
    cells = [item.package, row.version, row.jax, f"{item.summary} (`{row.name}`)"]
    if row.ok:
        cells += [str(row.nodes), _number(row.seconds, 2)]
        cells += [f"{row.max_error:.1e}"]
        cells += [_number(1e3 * time, 3) for time in (row.ort, row.estimate, row.xla)]
        cells += [_number(row.ort / row.xla, 2) if row.xla else ""]
    else:
        cells += ["fails", *[""] * 6]
    return f"| {' | '.join(cells)} |\n"


def _number(value: float, digits: int) -> str:
    """The number; nothing for 0, which was not measured."""
    return f"{value:.{digits}f}" if value else ""


def _why(row: Result, item: Program) -> str:
    return item.fault or f"{row.stage}: {row.error}"


def _first_line(result: Result) -> str:
    lines = [text for text in result.error.splitlines() if text.strip()]
    return lines[0][:200] if lines else ""
