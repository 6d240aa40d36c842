"""Runs the translated examples in each runtime, and compares the outputs with XLA's.

    python -m tools.portability                              every runtime, every example
    python -m tools.portability gru switch --runtimes ort-web@1.30
    python -m tools.portability --write                      ... and writes docs/portability.md
    python -m tools.portability --write --harnesses FILE ... with JAX's harnesses, of
                                                             tools.conformance --runtime --json

A runtime is named as for `tools.probe`; `ort-cpu@1.20=FILE.json` translates for another target than
that of its name. Environments are made where they are missing. A runtime that cannot be installed
or started keeps its column, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hlo2onnx.runtime.adapters.installed import Name
from hlo2onnx.runtime.adapters.process import StartError
from tools import ROOT, command_line, example_names, write_page
from tools.portability.page import page, recorded
from tools.portability.run import RIGHT, Result, tried
from tools.probe.environments import InstallError, start

RUNTIMES: Mapping[str, str] = {
    "ort-cpu@1.32": "ort-cpu",
    "ort-cpu@1.31": "ort-cpu",
    "ort-cpu@1.23": "ort-cpu@1.23",
    "ort-cpu@1.20": "ort-cpu@1.20",
    "ort-web@1.30": "ort-web",
    "ort-webgpu@1.30": "ort-webgpu",
    "openvino@2026.4.1": "openvino",
    "iree@3.13": "iree",
    "tract@0.23.9": "tract",
    "tvm@0.27": "static",
    "opencv@5.0": "static",
    "reference": "onnx",
}
"""Runtimes, and the targets that models for them are made for."""
SECONDS = 120.0

Results = dict[str, dict[str, Result]]
"""By runtime and program."""


def main(argv: Sequence[str] | None = None) -> int:
    given = _options(argv)
    results: Results = {}
    missing = 0
    wanted = dict(item.partition("=")[::2] for item in given.runtimes or RUNTIMES)
    for runtime, target in wanted.items():
        try:
            process = start(Name.parsed(runtime), seconds=SECONDS)
        except (InstallError, StartError) as error:
            print(f"{runtime}: not run: {error}", file=sys.stderr)
            missing += 1
            continue
        done = results.setdefault(runtime, {})
        with process:
            for program in given.programs or example_names():
                chosen = target or RUNTIMES.get(runtime) or runtime.partition("@")[0]
                done[program] = tried(program, chosen, process)
                print(f"{runtime} {program}: {done[program]}", flush=True)
        if given.write:
            _write({runtime: done}, given.harnesses)
    for runtime, done in results.items():
        right = sum(result.verdict == RIGHT for result in done.values())
        print(f"{runtime}: {right} of {len(done)} are right")
    return int(bool(missing))


def _write(results: Results, harnesses: Sequence[Path]) -> None:
    """Puts results beside those that the page has."""
    path = ROOT / "docs" / "portability.md"
    text = path.read_text(encoding="utf-8")
    known = recorded(text)
    for runtime, done in results.items():
        known[runtime] = {**known.get(runtime, {}), **done}
    ordered = {name: known[name] for name in (*RUNTIMES, *known) if name in known}
    _, heading, rest = text.partition("\n## JAX's harnesses\n")
    write_page(path, page(ordered, harnesses) + ("" if harnesses else heading + rest))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line("portability", __doc__)
    add = parser.add_argument
    add("programs", nargs="*", help="names of examples; default: all")
    add("--runtimes", nargs="*", help=f"default: {', '.join(RUNTIMES)}")
    add("--harnesses", type=Path, nargs="+", default=(), metavar="FILE", help="one a runtime")
    add(
        "--write",
        action="store_true",
        help="write docs/portability.md; other runtimes keep their columns",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
