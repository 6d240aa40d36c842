"""Writes docs/op_coverage.md from the ops that the tests translate.

Runs the tests with a recorder, writes the record docs/op_coverage.json, and renders it with the
registry and the limitations. ``--render`` renders the existing record.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tools import ROOT, command_line, environment, write_page
from tools.coverage.page import PAGE, RECORD, page_of, record_of

TESTS = ("tests/ops", "tests/lowering")


def record(tests: list[str]) -> None:
    """Runs tests and records the ops that they translate; failing tests do not count.

    The record of other test files stays.
    """
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "ops.jsonl"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.coverage.recorder"]
        command += ["--record-ops", str(lines), *tests]
        subprocess.run(command, cwd=ROOT, env=environment(), check=False)
        old = json.loads(RECORD.read_text(encoding="utf-8"))
        written = lines.read_text(encoding="utf-8").splitlines()
    content = record_of(written, old, version("jaxlib"))
    RECORD.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = command_line("coverage", __doc__)
    parser.add_argument("--render", action="store_true", help="render the existing record")
    parser.add_argument("tests", nargs="*", help=f"default: {' '.join(TESTS)}")
    given = parser.parse_args()
    if not given.render:
        record(given.tests or list(TESTS))
    write_page(PAGE, page_of(json.loads(RECORD.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
