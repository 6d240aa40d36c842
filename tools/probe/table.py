"""The kernel table as JSON: written, read, merged, compared.

Its sections hold rows by operator key, in which element types stand under the opsets that they
share; in sections of pairs there is such a row for each first element type.

    ops, pairs                what runs and gives the right numbers
    wrong, wrong_pairs        what runs and gives wrong numbers, and so counts as not there
    limited, limited_pairs    what is in these, and right for easier operands

A run of opsets that ends with the newest one has no end: "18-". So a table that extends another one
needs no rows where only the newest opset differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import onnx_ir as ir

from hlo2onnx.targets.target import parse_ranges
from tools.probe.models import DTYPES

Fact = tuple[str, tuple[ir.DataType, ...]]
"""Operator key and one element type, or the two of a pair."""
Found = dict[Fact, set[int]]
"""Opsets in which each fact holds; an empty set when in none."""
Sections = Mapping[str, Found]

OPS, PAIRS, WRONG, WRONG_PAIRS, LIMITED, LIMITED_PAIRS = SECTIONS = (
    "ops",
    "pairs",
    "wrong",
    "wrong_pairs",
    "limited",
    "limited_pairs",
)
_OF_PAIRS = (PAIRS, WRONG_PAIRS, LIMITED_PAIRS)
_RUNS = ("does not run", "runs")
_IS_WRONG = ("gives no wrong numbers", "gives wrong numbers")
_SAYS = {
    OPS: _RUNS,
    PAIRS: _RUNS,
    WRONG: _IS_WRONG,
    WRONG_PAIRS: _IS_WRONG,
    LIMITED: ("is wrong for easy operands, too", "is right for easy operands"),
    LIMITED_PAIRS: ("is wrong for easy operands, too", "is right for easy operands"),
}


def ranges(opsets: Iterable[int], newest: int) -> str:
    """Write {18, 19, 20, 23} as "18-20,23-" if 23 is the newest opset."""
    parts: list[list[int]] = []
    for opset in sorted(opsets):
        if parts and parts[-1][-1] == opset - 1:
            parts[-1].append(opset)
        else:
            parts.append([opset])
    return ",".join(_range(part[0], part[-1], newest) for part in parts)


def _range(first: int, last: int, newest: int) -> str:
    if last == newest:
        return f"{first}-"
    return f"{first}-{last}" if first < last else str(first)


def _row(support: Mapping[ir.DataType, set[int]], newest: int) -> dict[str, str]:
    """Write element types under the range of opsets that they share."""
    row: dict[str, list[str]] = {}
    for dtype in DTYPES:
        if support.get(dtype):
            row.setdefault(ranges(support[dtype], newest), []).append(dtype.short_name())
    return {opsets: " ".join(names) for opsets, names in sorted(row.items())}


def encode(section: str, found: Found, newest: int) -> dict[str, Any]:
    """Write what was found up to the newest opset as a section.

    Rows of what holds nowhere stand in `ops` and `pairs`.
    """
    if section not in (OPS, PAIRS):
        found = {fact: opsets for fact, opsets in found.items() if opsets}
    if section not in _OF_PAIRS:
        rows: dict[str, dict[ir.DataType, set[int]]] = {}
        for (key, (dtype,)), opsets in found.items():
            rows.setdefault(key, {})[dtype] = opsets
        return {key: _row(row, newest) for key, row in rows.items()}
    nested: dict[str, dict[ir.DataType, dict[ir.DataType, set[int]]]] = {}
    for (key, (first, second)), opsets in found.items():
        nested.setdefault(key, {}).setdefault(first, {})[second] = opsets
    return {
        key: {d.short_name(): row for d, s in firsts.items() if (row := _row(s, newest))}
        for key, firsts in nested.items()
    }


def decode(section: str, rows: Mapping[str, Any], newest: int) -> Found:
    """Read a section as `encode` writes it."""
    found: Found = {}
    named = ir.DataType.from_short_name

    def read(key: str, row: Mapping[str, str], *first: ir.DataType) -> None:
        for opsets, names in row.items():
            for name in names.split():
                found[key, (*first, named(name))] = set(parse_ranges(opsets, newest))

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
    for name, item in sorted(table.items(), key=lambda item: _place(item[0])):
        text = lines(item, 2, name in _OF_PAIRS) if isinstance(item, dict) else json.dumps(item)
        sections.append(f"  {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


_FIRST = (
    "extends", "runtime", "runtime_version", "onnx_version", "about", "known",
    "min_opset", "max_opset",
    "default_opset", "max_ir_version", "harmful_fusions",
)  # fmt: skip


def _place(key: str) -> tuple[int, str]:
    """The order of keys: what is special about the runtime, its flags, its costs and rows."""
    if key in _FIRST:
        return _FIRST.index(key), ""
    last = ("costs", *SECTIONS, "skipped")
    return (len(_FIRST) + 1 + last.index(key), "") if key in last else (len(_FIRST), key)


def merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Put the operators of a partial table into a full one."""
    probed = {operator_of(key) for section in SECTIONS for key in new[section]}
    merged = dict(new)
    for section in SECTIONS:
        rows = old.get(section, {}).items()
        merged[section] = {k: v for k, v in rows if operator_of(k) not in probed} | new[section]
    return merged


def without_rows_of(base: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out of a table what it takes from a base if it extends it; a row that holds nothing
    stands for one that the base has."""
    newest, made = table["max_opset"], dict(table)
    for section in SECTIONS:
        mine, theirs = table[section], base.get(section, {})
        made[section] = {
            key: mine.get(key, {})
            for key in {**theirs, **mine}
            if _facts(section, key, mine, newest) != _facts(section, key, theirs, newest)
        }
    for section in ("skipped", "costs"):
        made[section] = {
            k: v for k, v in table[section].items() if base.get(section, {}).get(k) != v
        }
    known = {**base, **{key: {} for key in (*SECTIONS, "skipped", "costs")}}
    return {
        key: value
        for key, value in made.items()
        if key in _ALWAYS or value != known.get(key, False)
    }


_ALWAYS = ("runtime", "runtime_version", "onnx_version", "min_opset", "max_opset")


def _facts(section: str, key: str, rows: Mapping[str, Any], newest: int) -> Found:
    """The facts of a row that hold somewhere, up to the newest opset."""
    found = decode(section, {key: rows.get(key, {})}, newest)
    return {fact: opsets for fact, opsets in found.items() if opsets}


def operator_of(key: str) -> str:
    """Give the operator of a key."""
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
            the table has and the runtime lacks.
    """
    facts = list(probed)
    different = []
    for section in SECTIONS:
        known = decode(section, table.get(section, {}), table["max_opset"])
        for opset in sorted(opsets):
            for fact in facts:
                here = opset in found[section].get(fact, ())
                if not exact and (here or section not in (OPS, PAIRS)):
                    continue
                if here != (opset in known.get(fact, ())):
                    names = " ".join(dtype.short_name() for dtype in fact[1])
                    what = f"{fact[0]} {names} opset {opset}: {_SAYS[section][here]}"
                    different.append(f"{what}, unlike in the table")
    return different
