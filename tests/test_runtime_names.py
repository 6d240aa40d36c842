"""Only targets, and what runs models, know a runtime: its name, its kernels' costs, its faults."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import hlo2onnx.targets
from hlo2onnx.targets import load_target
from hlo2onnx.targets.costs import Costs, Flags
from hlo2onnx.targets.table import SCHEMA_TARGET

ROOT = Path(__file__).parents[1]
ROOMS = (
    *(f"hlo2onnx/{room}" for room in ("frontend", "ir", "lowering", "raising")),
    "hlo2onnx/pipeline.py",
    "dialect_handlers",
)
"""Code that is for any runtime. Comments and docstrings may say what was measured in one."""

RUNTIME = re.compile(r"\bort\b|onnx ?runtime|openvino|tensorrt|\btract\b", re.IGNORECASE)


def sources() -> Iterator[Path]:
    for room in ROOMS:
        path = ROOT / room
        assert path.exists()
        yield from [path] if path.suffix else path.rglob("*.py")


def runtimes_named(tree: ast.AST) -> list[str]:
    """Names, imports and texts of code that name a runtime, and uses of a target's name but in a
    message."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    messages = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr | ast.keyword)
        for part in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in prose and RUNTIME.search(text):
                found.append(text)
            case ast.Name(id=name) | ast.alias(name=name) if RUNTIME.search(name):
                found.append(name)
            case ast.Attribute(
                attr="name", value=ast.Name(id="target") | ast.Attribute(attr="target")
            ):
                if id(node) not in messages:
                    found.append(ast.unparse(node))
    return found


def test_only_targets_name_a_runtime() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in sources()
        if (names := runtimes_named(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert not found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('x = b.target.name == "acme"', ["b.target.name"]),
        ('target.name.startswith("ort")', ["ort", "target.name"]),
        ("import onnxruntime", ["onnxruntime"]),
        ("ort.run()", ["ort"]),
        ('def f():\n    """ONNX Runtime is slow here."""\n    # ORT\n    "ort"', []),
        ('f"{target.name} has none"', []),
        ("Report(target=target.name)", []),
        ("sort(support, target.names)", []),
    ],
)
def test_what_names_a_runtime(text: str, found: list[str]) -> None:
    assert sorted(runtimes_named(ast.parse(text))) == found


def test_the_standard_has_no_costs_and_no_workarounds() -> None:
    target = load_target(SCHEMA_TARGET)
    assert target.costs == Costs()
    assert target.flags == Flags(rounds_half=True, fuses_attention=True)
    assert not target.harmful_fusions


def test_the_table_of_onnxruntime_gives_every_cost() -> None:
    """None of its numbers is a default, which knows no runtime."""
    path = Path(hlo2onnx.targets.__file__).parent / "tables" / "ort-cpu.json"
    table = json.loads(path.read_text())
    assert set(table["costs"]) == {field.name for field in fields(Costs)}
    assert {name: getattr(load_target("ort-cpu").costs, name) for name in table["costs"]} == table[
        "costs"
    ]


def test_costs_and_flags_are_explained() -> None:
    """Each field has a docstring of its own."""
    module = ast.parse((ROOT / "hlo2onnx/targets/costs.py").read_text(encoding="utf-8"))
    for one in module.body:
        if isinstance(one, ast.ClassDef):
            for field, after in zip(one.body, [*one.body[1:], None], strict=True):
                if isinstance(field, ast.AnnAssign):
                    assert isinstance(after, ast.Expr), ast.unparse(field)
