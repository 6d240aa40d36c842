"""The kernel table as JSON: written, read, merged, compared.

Its sections hold rows by operator key, in which element types stand under the opsets that they
share; in sections of pairs there is such a row for each first element type.

    ops, pairs                what runs and gives the right numbers
    wrong, wrong_pairs        what runs and gives wrong numbers, and so counts as not there
    zero_signs_lost           what runs, counts as there, and makes +0 of some -0 that it only moves
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import onnx_ir as ir

from hlo2onnx.targets.target import parse_ranges
from tools.probe.recipes import DTYPES

Fact = tuple[str, tuple[ir.DataType, ...]]
"""Operator key and one element type, or the two of a pair."""
Found = dict[Fact, set[int]]
"""Opsets in which each fact holds; an empty set when in none."""
Sections = Mapping[str, Found]

OPS, PAIRS, WRONG, WRONG_PAIRS, ZERO_SIGNS = SECTIONS = (
    "ops",
    "pairs",
    "wrong",
    "wrong_pairs",
    "zero_signs_lost",
)
_OF_PAIRS = (PAIRS, WRONG_PAIRS)
_RUNS = ("does not run", "runs")
_IS_WRONG = ("gives no wrong numbers", "gives wrong numbers")
_SAYS = {
    OPS: _RUNS,
    PAIRS: _RUNS,
    WRONG: _IS_WRONG,
    WRONG_PAIRS: _IS_WRONG,
    ZERO_SIGNS: ("keeps the signs of zeros", "loses signs of zeros"),
}
_HARMFUL = {OPS: False, PAIRS: False, ZERO_SIGNS: True}
"""What a runtime must not do if a model was made by the table of another version."""


def ranges(opsets: Iterable[int]) -> str:
    """Write {18, 19, 20, 23} as "18-20,23"."""
    parts: list[list[int]] = []
    for opset in sorted(opsets):
        if parts and parts[-1][-1] == opset - 1:
            parts[-1].append(opset)
        else:
            parts.append([opset])
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


def _row(support: Mapping[ir.DataType, set[int]]) -> dict[str, str]:
    """Write element types under the range of opsets that they share."""
    row: dict[str, list[str]] = {}
    for dtype in DTYPES:
        if support.get(dtype):
            row.setdefault(ranges(support[dtype]), []).append(dtype.short_name())
    return {opsets: " ".join(names) for opsets, names in sorted(row.items())}


def encode(section: str, found: Found) -> dict[str, Any]:
    """Write what was found as a section; rows of what holds nowhere stand in `ops` and `pairs`."""
    if section not in (OPS, PAIRS):
        found = {fact: opsets for fact, opsets in found.items() if opsets}
    if section not in _OF_PAIRS:
        rows: dict[str, dict[ir.DataType, set[int]]] = {}
        for (key, (dtype,)), opsets in found.items():
            rows.setdefault(key, {})[dtype] = opsets
        return {key: _row(row) for key, row in rows.items()}
    nested: dict[str, dict[ir.DataType, dict[ir.DataType, set[int]]]] = {}
    for (key, (first, second)), opsets in found.items():
        nested.setdefault(key, {}).setdefault(first, {})[second] = opsets
    return {
        key: {d.short_name(): row for d, support in firsts.items() if (row := _row(support))}
        for key, firsts in nested.items()
    }


def decode(section: str, rows: Mapping[str, Any]) -> Found:
    """Read a section as `encode` writes it."""
    found: Found = {}
    named = ir.DataType.from_short_name

    def read(key: str, row: Mapping[str, str], *first: ir.DataType) -> None:
        for opsets, names in row.items():
            for name in names.split():
                found[key, (*first, named(name))] = set(parse_ranges(opsets))

    for key, row in rows.items():
        if section in _OF_PAIRS:
            for first, seconds in row.items():
                read(key, seconds, named(first))
        else:
            read(key, row)
    return found


def dump(table: Mapping[str, Any]) -> str:
    """Give the table as JSON with one line for each operator key (pairs: each first type)."""

    def lines(rows: Mapping[str, Any], depth: int, nested: bool = False) -> str:
        if not rows:
            return "{}"
        pad = " " * (2 * depth)
        body = [
            f"{pad}{json.dumps(k)}: "
            + (lines(v, depth + 1) if nested else json.dumps(v, ensure_ascii=False))
            for k, v in sorted(rows.items())
        ]
        return "{\n" + ",\n".join(body) + "\n" + " " * (2 * depth - 2) + "}"

    sections = []
    for name, item in table.items():
        text = lines(item, 2, name in _OF_PAIRS) if isinstance(item, dict) else json.dumps(item)
        sections.append(f"  {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Put the operators of a partial table into a full one."""
    probed = {_operator(key) for section in SECTIONS for key in new[section]}
    merged = dict(new)
    for section in SECTIONS:
        rows = old.get(section, {}).items()
        merged[section] = {k: v for k, v in rows if _operator(k) not in probed} | new[section]
    return merged


def keep_opsets(found: Sections, table: Mapping[str, Any], probed: Iterable[int]) -> None:
    """Add what a table says about the opsets in which the operators found were not probed."""
    again = set(probed)
    operators = {_operator(key) for facts in found.values() for key, _ in facts}
    for section, facts in found.items():
        for fact, opsets in decode(section, table.get(section, {})).items():
            if _operator(fact[0]) in operators:
                facts.setdefault(fact, set()).update(opsets - again)


def _operator(key: str) -> str:
    return key.partition("[")[0].partition(".")[0]


def differences(
    found: Sections,
    probed: Iterable[Fact],
    opsets: Iterable[int],
    table: Mapping[str, Any],
    *,
    exact: bool = True,
) -> list[str]:
    """List what was found about the facts probed in these opsets and is not what a table says.

    Args:
        exact: If False, list only what a model made by the table could suffer from: a kernel that
            the table has and the runtime lacks, or a sign of zero that is lost in the runtime only.
    """
    facts = list(probed)
    different = []
    for section in SECTIONS:
        known = decode(section, table.get(section, {}))
        for opset in sorted(opsets):
            for fact in facts:
                here = opset in found[section].get(fact, ())
                if not exact and here is not _HARMFUL.get(section):
                    continue
                if here != (opset in known.get(fact, ())):
                    names = " ".join(dtype.short_name() for dtype in fact[1])
                    what = f"{fact[0]} {names} opset {opset}: {_SAYS[section][here]}"
                    different.append(f"{what}, unlike in the table")
    return different
