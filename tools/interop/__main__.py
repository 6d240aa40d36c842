"""Applies tools of other projects to the translated examples.

    python -m tools.interop                        every tool, every example
    python -m tools.interop gru switch --tools onnxsim
    python -m tools.interop --write                ... and writes docs/interoperability.md

The tools that `pip install 'hlo2onnx[interop]'` installs are skipped where they are missing. The
exit code is 0 if each failure has a known reason (`tools/interop/known.py`), 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from tools import ROOT, command_line, example_names, write_page
from tools.interop.checks import TOOLS
from tools.interop.known import reason_of
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
                reason = reason_of(tool, program, problem)
                unknown += not reason and problem != "skipped"
                print(f"    {tool}: {f'known: {reason}' if reason else problem}", flush=True)
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
    names = list(TOOLS)
    text = "| tool | version | pass | fail |\n| --- | --- | --- | --- |\n"
    for tool in names:
        found = [result[tool] for result in results.values()]
        failed = sum(map(bool, found))
        cells = [f"`{tool}`", _version(tool), f"{len(found) - failed} of {len(found)}"]
        text += f"| {' | '.join([*cells, str(failed or '')])} |\n"
    text += "\n## Failures\n\n| tool | reason | examples |\n| --- | --- | --- |\n"
    failures = sorted(_failures(results).items(), key=lambda item: names.index(item[0][0]))
    for (tool, reason), programs in failures:
        text += f"| `{tool}` | {reason or 'unknown'} | {', '.join(programs)} |\n"
    return text


def _failures(results: Results) -> dict[tuple[str, str], list[str]]:
    """The programs by tool and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for program, result in results.items():
        for tool, problem in result.items():
            if problem:
                found.setdefault((tool, reason_of(tool, program, problem)), []).append(program)
    return found


def _version(tool: str) -> str:
    try:
        return version(TOOLS[tool].package)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
