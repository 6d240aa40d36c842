"""The page of the results of tools.gpu."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools import example_names
from tools.gpu.timed import PROGRAMS, TYPES

RESULTS = "results.json"
"""The file of the results in their folder."""
MISSING = "not measured"
KINDS = ("ort-cuda", "ort-tensorrt")


def read(folder: Path | None) -> dict[str, Any]:
    """The results in a folder; {} where there are none."""
    path = folder / RESULTS if folder else None
    return json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}


def page(found: Mapping[str, Any]) -> str:
    """The tables, with "not measured" in the cells without a result."""
    machine = found.get("machine", {})
    about = ", ".join(f"{key} {value}" for key, value in machine.items()) or MISSING
    tables = [f"Machine: {about}.", "## Examples", _table(["example", *KINDS])]
    for name in example_names():
        tables[-1] += _row(name, (_example(found, f"{kind} {name}") for kind in KINDS))
    columns = ("JAX", "ours", "ours, CUDA graph")
    tables += ["## Times", "Milliseconds of a call.", _table(["program", "target", *columns])]
    for dtype in TYPES:
        for name in PROGRAMS:
            for kind in KINDS:
                times = found.get("times", {}).get(f"{kind} {name} {dtype}", {})
                cells = (_time(times, column) for column in columns)
                tables[-1] += _row(f"{name}, {dtype}", (f"`{kind}`", *cells))
    return "\n\n".join(map(str.strip, [*tables, "## Kernels", _kernels(found.get("kernels", {}))]))


def _table(titles: list[str]) -> str:
    return _row(titles[0], titles[1:]) + _row("---", ["---"] * (len(titles) - 1))


def _row(title: str, cells: Any) -> str:
    return f"| {' | '.join([title, *cells])} |\n"


def _example(found: Mapping[str, Any], key: str) -> str:
    result = found.get("examples", {}).get(key)
    if result is None or "error" in result:
        why = "" if result is None else result["error"]
        return MISSING if not why else "refused" if "TranslationError" in why else "fails"
    return "right" if result["right"] else "**wrong**"


def _time(times: Mapping[str, Any], column: str) -> str:
    if "error" in times:
        return "fails"
    return f"{times[column]:.3f}" if column in times else MISSING


def _kernels(found: Mapping[str, Any]) -> str:
    if not found:
        return f"Kernels of the table of `ort-cuda`: {MISSING}."
    right = sum(each.get("right", 0) for each in found.values())
    lines = [f"* {text}" for each in found.values() for text in each.get("unlike the table", ())]
    head = f"{len(found)} operators were probed; {right} pairs of a type and an opset work."
    return "\n".join([head, "", *(lines or ["All is as in the table."])])
