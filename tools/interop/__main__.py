"""Applies tools of other projects to the translated examples.

    python -m tools.interop                        every tool, every example
    python -m tools.interop gru switch --tools onnxsim
    python -m tools.interop --write                ... and writes docs/interoperability.md

The tools that `pip install 'hlo2onnx[interop]'` installs are skipped where they are missing. The
exit code is 0 if each failure is known (`tools/interop/checks.py`), 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from tools import ROOT, command_line, example_names, write_page
from tools.interop.checks import TOOLS
from tools.interop.run import apply

Results = Mapping[str, Mapping[str, str]]
"""The problem of each tool with each program; an empty text if it has none."""


def main(argv: Sequence[str] | None = None) -> int:
    given = _options(argv)
    tools = given.tools or list(TOOLS)
    results, unknown = {}, 0
    for program in given.programs or example_names():
        results[program] = apply(program, tools)
        print(program, flush=True)
        for tool, problem in results[program].items():
            if problem:
                is_known = program in TOOLS[tool].fails.split()
                unknown += not is_known and problem != "skipped"
                print(f"    {tool}: {'known: ' * is_known}{problem}", flush=True)
    if given.write:
        write_page(ROOT / "docs" / "interoperability.md", page(results))
    return int(bool(unknown))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line("interop", __doc__)
    add = parser.add_argument
    add("programs", nargs="*", help="names of examples; default: all")
    add("--tools", nargs="+", choices=TOOLS, metavar="TOOL", help=f"of {', '.join(TOOLS)}")
    add("--write", action="store_true", help="write docs/interoperability.md: needs all of both")
    return parser.parse_args(argv)


def page(results: Results) -> str:
    """The page as Markdown."""
    text = "| tool | version | pass | fail |\n| --- | --- | --- | --- |\n"
    for tool in TOOLS:
        failed = [program for program, problems in results.items() if problems[tool]]
        passed = f"{len(results) - len(failed)} of {len(results)}"
        cells = [f"`{tool}`", _version(tool), passed, ", ".join(failed)]
        text += f"| {' | '.join(cells)} |\n"
    return text


def _version(tool: str) -> str:
    try:
        return version(TOOLS[tool].package)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
