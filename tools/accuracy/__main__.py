"""Measures the errors of special functions in ONNX Runtime and in XLA.

    python -m tools.accuracy                       print the table
    python -m tools.accuracy --only 'erf*,lgamma'  of these functions
    python -m tools.accuracy --write               of all, and rewrite docs/accuracy.md

A line holds the largest errors of a function over a grid of its domain (`grid`), in units in the
last place of the exact value. mpmath computes that value to at least 40 digits. The exit code is 1
if an error exceeds both 5 units and twice XLA's error, and `functions` gives no reason for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import jax
import numpy as np
import onnxruntime

from tools import ROOT, command_line, write_page
from tools.accuracy.functions import FUNCTIONS, NOTES
from tools.accuracy.measure import Measurement, measure

TABLE = ROOT / "docs" / "accuracy.md"
DTYPES = ("float32", "float64")
HEAD = """\
Recorded with ONNX Runtime {runtime} and JAX {jax}.

| function | domain | type | points | ours | XLA | ours is largest at |
| --- | --- | --- | --- | --- | --- | --- |"""


def line(measured: Measurement) -> str:
    """One line of the table."""
    function, note = FUNCTIONS[measured.function], note_of(measured)
    where = ", ".join(f"{x:.9g}" for x in measured.ours.where)
    return (
        f"| {measured.function} | {function} | {measured.dtype} | {measured.points} |"
        f" {measured.ours.ulps:.3g} | {measured.xla.ulps:.3g} | {where}{note and f' ({note})'} |"
    )


def note_of(measured: Measurement) -> str:
    """The reason of a large error; empty for a small one."""
    known = NOTES.get((measured.function, measured.dtype), "")
    return "" if measured.is_close else known or "NO REASON KNOWN"


def lines(names: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The lines of the table, and whether every large error has a reason."""
    for name in names:
        for dtype in DTYPES:
            measured = measure(FUNCTIONS[name], np.dtype(dtype))
            yield line(measured), measured.is_close or (name, dtype) in NOTES


def main() -> int:
    parser = command_line("accuracy", __doc__)
    parser.add_argument("--only", default="*", help="patterns of functions, with commas")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    options = parser.parse_args()
    if options.write and options.only != "*":
        parser.error("--write is of all functions")

    patterns = options.only.split(",")
    names = [n for n in sorted(FUNCTIONS) if any(fnmatchcase(n, p) for p in patterns)]
    head = HEAD.format(runtime=onnxruntime.__version__, jax=jax.__version__)
    print(head)
    table, good = [head], True
    for text, is_good in lines(names):
        print(text, flush=True)
        table.append(text)
        good &= is_good
    if options.write:
        write_page(TABLE, "\n".join(table))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
