"""Writes the API reference as a web site: a page for each module, made of its docstrings by pdoc.

    python -m tools.docs [FOLDER]      by default into build/docs

Exit code: 0; 1 if pdoc warns.
"""

from __future__ import annotations

import pkgutil
import shutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import pdoc.doc
import pdoc.render

import hlo2onnx
import hlo2onnx.runtime
from tools import ROOT, command_line

DEFAULT = ROOT / "build" / "docs"


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the site and prints the warnings."""
    parser = command_line("docs", __doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT, help="default: build/docs")
    folder = parser.parse_args(argv).folder
    own = folder / "hlo2onnx.html"
    if folder.exists() and any(folder.iterdir()) and not own.exists():
        parser.error(f"{folder} holds something else than this documentation")
    shutil.rmtree(folder, ignore_errors=True)
    found = write_reference(folder)
    for warning in found:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"{len(module_names())} pages in {folder}: {folder / 'index.html'}")
    return 1 if found else 0


def module_names() -> list[str]:
    """The package and its modules, without the one that runs the command."""
    found = pkgutil.walk_packages(hlo2onnx.__path__, "hlo2onnx.")
    return ["hlo2onnx", *(item.name for item in found if not item.name.endswith("__main__"))]


def write_reference(folder: Path) -> list[str]:
    """Writes a page for each module, and an index for the search; returns pdoc's warnings."""
    for package in (hlo2onnx, hlo2onnx.runtime):
        for name in package.__all__:  # pdoc knows no attributes that are imported when asked for
            getattr(package, name)
    pdoc.render.configure(
        docformat="google", show_source=False, footer_text=f"hlo2onnx {hlo2onnx.__version__}"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        modules = {name: pdoc.doc.Module.from_name(name) for name in module_names()}
        for name, module in modules.items():
            path = folder.joinpath(*name.split(".")).with_suffix(".html")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pdoc.render.html_module(module, modules), encoding="utf-8")
        index = pdoc.render.html_index(modules)
        (folder / "index.html").write_text(index, encoding="utf-8")
        (folder / "search.js").write_text(pdoc.render.search_index(modules), encoding="utf-8")
    return [f"{item.category.__name__}: {item.message}" for item in caught]


if __name__ == "__main__":
    sys.exit(main())
