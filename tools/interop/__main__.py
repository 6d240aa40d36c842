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
from collections.abc import Sequence

from tools import ROOT, example_names
from tools.interop.checks import TOOLS
from tools.interop.known import reason_of
from tools.interop.page import page
from tools.interop.run import apply


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
        text = page(results)
        (ROOT / "docs" / "interoperability.md").write_text(text, encoding="utf-8")
    return int(bool(unknown))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.interop",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("programs", nargs="*", help="names of examples; default: all")
    add("--tools", nargs="+", choices=TOOLS, metavar="TOOL", help=f"of {', '.join(TOOLS)}")
    add("--write", action="store_true", help="write docs/interoperability.md: needs all of both")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
