"""Writes the documentation as a web site; see `tools.docs`.

Exit code: 0; 1 if there are warnings, such as a link to nowhere.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tools import ROOT
from tools.docs.pages import write_pages
from tools.docs.reference import write_reference

DEFAULT = ROOT / "build" / "docs"


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the site and prints the warnings."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT, help="default: build/docs")
    folder = parser.parse_args(argv).folder
    own = folder / "reference" / "hlo2onnx.html"
    if folder.exists() and any(folder.iterdir()) and not own.exists():
        parser.error(f"{folder} holds something else than this documentation")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    warnings = [*write_reference(folder / "reference"), *write_pages(folder)]
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    count = sum(1 for _ in folder.rglob("*.html"))
    print(f"{count} pages in {folder}: {folder / 'index.html'}")
    return 1 if warnings else 0


if __name__ == "__main__":
    sys.exit(main())
