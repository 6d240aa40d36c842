"""Writes docs/op_coverage.md from the ops that the tests translate.

Runs the tests with a recorder, writes the record docs/op_coverage.json, and renders it with the
registry and the limitations. ``--render`` renders the existing record. ``--check`` only compares;
it exits with 1 if the page is out of date.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tools import ROOT, environment
from tools.coverage.page import PAGE, RECORD, page_of, record_of

TESTS = ("tests/ops", "tests/lowering")


def record(tests: list[str]) -> None:
    """Runs tests and records the ops that they translate; failing tests do not count.

    The record of other test files stays.
    """
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "ops.jsonl"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.coverage.recorder"]
        subprocess.run(
            [*command, "--record-ops", str(lines), *tests],
            cwd=ROOT,
            env=environment(),
            check=False,
        )
        old = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
        written = lines.read_text(encoding="utf-8").splitlines()
        content = record_of(written, old, version("jaxlib"))
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.coverage", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--render", action="store_true", help="render the existing record")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("tests", nargs="*", help=f"default: {' '.join(TESTS)}")
    given = parser.parse_args()
    if not given.render and not given.check:
        record(given.tests or list(TESTS))
    page = page_of(json.loads(RECORD.read_text(encoding="utf-8")))
    if given.check:
        current = PAGE.read_text(encoding="utf-8") == page
        print(f"{PAGE.name} is {'current' if current else 'out of date'}")
        return 0 if current else 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
