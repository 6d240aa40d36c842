"""The page itself, rendered from the record, the registry and the limitations."""

from __future__ import annotations

import inspect
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jaxlib.mlir.dialects import _chlo_ops_gen, _stablehlo_ops_gen

from hlo2onnx.frontend.mlir.quantization import DEQUANTIZE, QUANTIZE
from hlo2onnx.frontend.mlir.stored_floats import DECODE, ENCODE
from hlo2onnx.frontend.mlir.types import ELEMENT_TYPES, STORED_FLOATS
from hlo2onnx.limitations import LIMITATIONS
from hlo2onnx.lowering.op import CUSTOM_CALL, call_key
from hlo2onnx.lowering.registry import Handler, load_handlers
from tools import ROOT

RECORD = ROOT / "docs" / "op_coverage.json"
PAGE = ROOT / "docs" / "op_coverage.md"

ORDER = [
    *dict.fromkeys([*ELEMENT_TYPES, *STORED_FLOATS]),
    "complex<f32>",
    "complex<f64>",
    "quantized",
]

HANDLERS = Path("dialect_handlers")
COMMON = HANDLERS / "common"

NOT_PROGRAMS = frozenset({"stablehlo.return", "chlo.return"})
"""Terminators of regions, which are part of the op around them."""


@dataclass(frozen=True)
class Row:
    """One op of the page."""

    op: str
    becomes: str
    types: Sequence[str]
    tests: int
    files: Sequence[str]

    def __str__(self) -> str:
        types = " ".join(sorted(self.types, key=_order)) or "none"
        files = ", ".join(f"[{short(file)}](../{file})" for file in self.files)
        return f"| `{self.op}` | {self.becomes} | {types} | {self.tests} | {files} |"


def dialect_ops() -> list[str]:
    """Every op of the two dialects in this jaxlib."""
    modules = (_stablehlo_ops_gen, _chlo_ops_gen)
    found = {
        item.OPERATION_NAME
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and hasattr(item, "OPERATION_NAME")
    }
    return sorted(found - NOT_PROGRAMS)


def record_of(lines: Iterable[str], old: Mapping[str, Any], jaxlib: str) -> dict[str, Any]:
    """The new record: the lines of the plugin, and the older record of test files that exist
    but did not run."""
    tests: dict[str, Counter[str]] = defaultdict(Counter)
    types: dict[tuple[str, str], set[str]] = defaultdict(set)
    ran = set()
    for line in lines:
        entry = json.loads(line)
        ran.add(entry["test"])
        for op in {op for op, _ in entry["ops"]}:
            tests[op][entry["test"]] += 1
        for op, element in entry["ops"]:
            types[op, entry["test"]].add(element)
    ops: dict[str, dict[str, Any]] = defaultdict(dict)
    for op, files in old.get("ops", {}).items():
        ops[op] |= {f: e for f, e in files.items() if f not in ran and (ROOT / f).exists()}
    for op, counts in tests.items():
        for file, count in counts.items():
            elements = sorted(filter(None, types[op, file]), key=_order)
            ops[op][file] = {"tests": count, "types": elements}
    before = {file for file in old.get("files", ()) if (ROOT / file).exists()}
    return {
        "jaxlib": jaxlib,
        "dialects": dialect_ops(),
        "files": sorted(ran | before),
        "ops": {op: dict(sorted(files.items())) for op, files in sorted(ops.items()) if files},
    }


def page_of(record: Mapping[str, Any]) -> str:
    """The page as Markdown."""
    ops: Mapping[str, Any] = record["ops"]
    calls = sorted({handler.op for handler in load_handlers().handlers() if _is_call(handler)})
    names = [op for op in record["dialects"] if op != CUSTOM_CALL]
    parts = [
        f"Recorded with jaxlib {record['jaxlib']}.\n",
        "## Ops\n",
        _table([_row(op, ops) for op in names]),
        "\n## Custom calls\n",
        "Other targets are translated by `hlo2onnx.expand_custom_call`, `hlo2onnx.custom_call` or"
        " `translate(custom_calls=...)`.\n",
        _table([_row(op, ops, op.partition("@")[2]) for op in calls]),
        "\n## Refused\n",
        _limits(),
    ]
    return "\n".join(parts) + "\n"


def _table(rows: Sequence[Row]) -> str:
    head = [
        "| op | becomes | element types tested | tests | handler |",
        "| --- | --- | --- | ---: | --- |",
    ]
    return "\n".join([*head, *map(str, rows)])


def _row(op: str, ops: Mapping[str, Any], shown: str = "") -> Row:
    files = ops.get(op, {}).values()
    types = {element for entry in files for element in entry["types"]}
    count = sum(entry["tests"] for entry in files)
    return Row(shown or op, _becomes(op), sorted(types), count, files_of(op))


def handlers_of(op: str) -> list[Handler]:
    """The handlers of an op, or of a custom call: for real, then for complex values."""
    registry = load_handlers()
    keys = (op, call_key(op))
    return [*filter(None, (registry.find(key, c) for key in keys for c in (False, True)))]


def files_of(op: str) -> list[str]:
    """The files of an op's handlers, below the root of the repository.

    Where a table in another file makes the handler, as of ops that are one operator: that file.
    """
    paths = (Path(inspect.getfile(inspect.unwrap(item.function))) for item in handlers_of(op))
    files = dict.fromkeys(path.resolve().relative_to(ROOT) for path in paths)
    found = [file for file in files if COMMON not in file.parents]
    if found != list(files):
        found += (path.relative_to(ROOT) for path in _sources() if f'"{op}"' in _text(path))
    return [file.as_posix() for file in dict.fromkeys(found)] or [f.as_posix() for f in files]


@cache
def _sources() -> list[Path]:
    """The files of handlers, without those that they share."""
    folder = ROOT / HANDLERS
    return [path for path in sorted(folder.rglob("*.py")) if ROOT / COMMON not in path.parents]


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def short(file: str) -> str:
    """A file of a handler as the page shows it: below the package, without the suffix."""
    return file.removeprefix("dialect_handlers/").removesuffix(".py")


def _becomes(op: str) -> str:
    handlers = handlers_of(op)
    if handlers:
        lines = (handlers[0].function.__doc__ or "").strip().partition("\n\n")[0]
        return " ".join(lines.split()).replace("|", "\\|")
    if any(op in limitation.ops for limitation in LIMITATIONS.values()):
        return "refused, see below"
    if op.startswith("chlo."):
        return "expanded into StableHLO by MLIR"
    return "replaced by MLIR before it is translated"


def _limits() -> str:
    lines = ["| ops | when | why | what to do |", "| --- | --- | --- | --- |"]
    for limit in LIMITATIONS.values():
        names = ", ".join(f"`{op.replace(CUSTOM_CALL + ' ', '')}`" for op in limit.ops)
        lines.append(f"| {names} | {limit.condition} | {limit.reason} | {limit.advice} |")
    return "\n".join(lines)


def _is_call(handler: Handler) -> bool:
    """Whether it is for a custom call of programs: one of ours is not, nor is one that a test
    registered in this process."""
    target = handler.op.removeprefix(f"{CUSTOM_CALL} @")
    built_in = handler.function.__module__.startswith("dialect_handlers.")
    return (
        target != handler.op and target not in (QUANTIZE, DEQUANTIZE, DECODE, ENCODE) and built_in
    )


def _order(element: str) -> tuple[int, str]:
    return (ORDER.index(element) if element in ORDER else len(ORDER), element)
