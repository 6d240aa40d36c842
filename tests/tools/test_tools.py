"""The tools import what there is: most of them are run by hand only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import ROOT

TOOLS = ROOT / "tools"


def names_in(path: Path) -> set[str]:
    """What a module defines or imports."""
    names = set()
    for part in ast.walk(ast.parse(path.read_text())):
        if isinstance(part, ast.FunctionDef | ast.ClassDef):
            names.add(part.name)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
        elif isinstance(part, ast.alias):
            names.add(part.asname or part.name)
    return names


def imports(path: Path) -> Iterator[tuple[Path, str]]:
    """The names that a tool imports from other modules of `tools`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "tools":
            module = ROOT.joinpath(*str(node.module).split("."))
            yield from ((module, alias.name) for alias in node.names)


def exists(module: Path, name: str) -> bool:
    if not module.is_dir():
        return name in names_in(module.with_suffix(".py"))
    parts = (module / f"{name}.py", module / name / "__init__.py")
    return any(path.exists() for path in parts) or name in names_in(module / "__init__.py")


@pytest.mark.wide
def test_names_imported_from_other_tools_exist() -> None:
    found = [(path, *item) for path in TOOLS.rglob("*.py") for item in imports(path)]
    assert len(found) > 100
    assert not [item for item in found if not exists(*item[1:])]
