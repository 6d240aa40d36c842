"""Imports run downwards through the layers, and no modules import one another in a circle.

docs/architecture.md shows the layers; this is their table.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("hlo2onnx", "dialect_handlers")

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "report"),
    ("custom_calls", "limitations"),
    ("interface", "options", "ir"),
    ("frontend",),
    ("targets", "runtime"),
    ("lowering", "raising"),
    ("dialect_handlers", "pickling", "pipeline"),
    ("verify",),
    ("program",),
    ("api", "bisect_models", "loading"),
    ("command", "genai", "policy", "reduction"),
    ("cli", "compat"),
    ("__main__",),
)
"""From the lowest to the highest. A package imports those of lower layers, and none of its own."""

FRONT = "hlo2onnx"
"""The package itself: what it imports at once has to be low, the rest it imports when it is asked
for. Every import of a module imports it first."""

EXCEPTIONS = {
    ("hlo2onnx.lowering.registry", "dialect_handlers"): "the built-in plug-in, when first used",
}
"""Upward imports within functions. There is none at the level of a module."""


class Import(NamedTuple):
    """One module imports another: at its top, within a function ("late"), or as a type."""

    importer: str
    imported: str
    kind: str


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


def known(name: str) -> str:
    """The module that a dotted name is, or is in; "" outside of the packages."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


def within(tree: ast.AST, kind: str = "top") -> Iterator[tuple[str, str]]:
    """What a module imports, each with the kind of the import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{alias.name}", kind) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, kind) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from within(node, "type")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from within(node, "late")
        else:
            yield from within(node, kind)


def every_import() -> list[Import]:
    found = []
    for module, path in sorted(MODULES.items()):
        for name, kind in within(ast.parse(path.read_text(encoding="utf-8"))):
            imported = known(name)
            if imported and imported != module:
                found.append(Import(module, imported, kind))
    return found


IMPORTS = every_import()


def room(module: str) -> str:
    """The folder or file below hlo2onnx that a module is in; handlers are one room."""
    package, _, rest = module.partition(".")
    return package if package != FRONT else rest.partition(".")[0] or FRONT


def layer(module: str) -> int:
    return next(index for index, rooms in enumerate(LAYERS) if room(module) in rooms)


def is_upward(one: Import) -> bool:
    if FRONT in (one.importer, one.imported) or room(one.importer) == room(one.imported):
        return False
    return layer(one.imported) >= layer(one.importer)


def circles(imports: list[Import]) -> list[set[str]]:
    """Sets of modules that all lead to one another (strongly connected components)."""
    graph: Mapping[str, set[str]] = defaultdict(set)
    for one in imports:
        graph[one.importer].add(one.imported)
    ends = {module: reachable(graph, module) for module in MODULES}
    found: list[set[str]] = []
    for module in MODULES:
        circle = {other for other in ends[module] if module in ends[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    pending = list(graph[start])
    while pending:
        module = pending.pop()
        if module not in seen:
            seen.add(module)
            pending += graph[module]
    return seen


def test_every_room_has_a_layer() -> None:
    rooms = {room(module) for module in MODULES} - {FRONT}
    listed = [name for rooms in LAYERS for name in rooms]
    assert sorted(listed) == sorted(rooms)


def test_no_import_runs_upwards() -> None:
    upward = [one for one in IMPORTS if one.kind == "top" and is_upward(one)]
    assert not upward


def test_late_imports_that_run_upwards_are_listed() -> None:
    late = {one[:2] for one in IMPORTS if one.kind == "late" and is_upward(one)}
    assert late == EXCEPTIONS.keys()


def test_types_come_from_below() -> None:
    assert not [one for one in IMPORTS if one.kind == "type" and is_upward(one)]


def test_the_package_itself_imports_little() -> None:
    """`import hlo2onnx` must not import JAX."""
    assert not [one for one in IMPORTS if one.importer == FRONT and one.kind == "top"]


def test_no_circle_among_modules() -> None:
    """Imports of types (`if TYPE_CHECKING`) count as well."""
    assert not circles([one for one in IMPORTS if one.kind != "late" and one.importer != FRONT])


def test_handlers_know_no_rule_and_rules_no_handler() -> None:
    found = {(room(one.importer), room(one.imported)) for one in IMPORTS}
    for pair in (("dialect_handlers", "raising"), ("raising", "lowering"), ("raising", "frontend")):
        assert pair not in found


def test_circles_are_found() -> None:
    names = ["hlo2onnx.errors", "hlo2onnx.report", "hlo2onnx.options"]
    pairs = [(names[0], names[1]), (names[1], names[2]), (names[2], names[0])]
    assert circles([Import(*pair, "top") for pair in pairs]) == [set(names)]
    assert circles([Import(*pair, "top") for pair in pairs[:2]]) == []


def test_the_picture_shows_the_layers() -> None:
    """Its rooms are those of the table, each has a paragraph, and its arrows lead where imports do
    and nowhere else."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = re.search(r"```mermaid\nflowchart BT\n(.*?)```", page, re.S)
    assert picture is not None
    shown = set(re.findall(r"^ +(\w+)\[", picture[1], re.M))
    assert shown == {name for rooms in LAYERS for name in rooms} - {"__main__"}
    for name in shown:
        assert re.search(rf"^### .*`{name}`", page, re.M), f"no paragraph on {name}"
    arrows: dict[str, set[str]] = defaultdict(set)
    for importer, imported in re.findall(r"^ +(\w+) --> (\w+)$", picture[1], re.M):
        arrows[importer].add(imported)
    found: dict[str, set[str]] = defaultdict(set)
    for one in IMPORTS:
        if one.kind == "top" and FRONT not in one[:2] and room(one.importer) != room(one.imported):
            found[room(one.importer)].add(room(one.imported))
    for name in sorted(shown):
        assert arrows[name] <= found[name], f"{name} imports less than the picture shows"
        assert found[name] <= reachable(arrows, name), f"{name} imports more than the picture shows"


def test_matchers_import_no_rules() -> None:
    shared = ("hlo2onnx.raising.match", "hlo2onnx.raising.vectorize")
    for name, path in MODULES.items():
        assert not name.startswith(shared) or "raising.rules" not in path.read_text(), name
