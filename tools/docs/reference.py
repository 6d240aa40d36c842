"""The API reference: a page for each module of hlo2onnx, made of its docstrings by pdoc."""

from __future__ import annotations

import pkgutil
import warnings
from pathlib import Path

import pdoc.doc
import pdoc.render

import hlo2onnx
import hlo2onnx.runtime


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
