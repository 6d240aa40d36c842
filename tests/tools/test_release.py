"""The distributions of a release: `python -m tools.release` builds them in CI."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tools import ROOT
from tools.release import RUNTIME


def runtime_files() -> list[Path]:
    found = [*ROOT.glob("hlo2onnx/**/*.py")]
    return [
        path
        for path in found
        if any(fnmatch(path.relative_to(ROOT).as_posix(), pattern) for pattern in RUNTIME)
    ]


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports when it is imported itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


def test_the_runtime_imports_numpy_and_itself_only() -> None:
    files = runtime_files()
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    modules |= {name.removesuffix(".__init__") for name in modules}
    strangers = {
        (path.name, name)
        for path in files
        for name in imported(path)
        if name not in modules and name.partition(".")[0] not in {*sys.stdlib_module_names, "numpy"}
    }
    assert len(files) > 10
    assert strangers == set()


def test_each_file_of_the_runtime_exists() -> None:
    for pattern in RUNTIME:
        assert [*ROOT.glob(pattern)], pattern
