"""Targets as JSON tables: those of the folder `tables` by their names, others by their paths.

The form:

    {
      "extends": "ort-cpu",                      the target that gives the rest
      "fallback": "ort-cpu",                     the target that runs nodes without a kernel
      "runtime": "...", "runtime_version": "...", "about": "...",
      "known": "measured",                       or "asked", "read": see `KNOWN`
      "min_opset": 18, "max_opset": 21, "default_opset": 20, "max_ir_version": 10,
      "ops":   {"Add": {"18-": "f32 i64"}},      operator key -> opsets -> element types
      "pairs": {"Cast": {"f32": {"18-21": "f16 i64"}}},
      "wrong": {"Max": {"18-21": "i64"}},        runs, and gives wrong numbers
      "limited": {"Max": {"18-21": "i64"}},      likewise, and right within limits
      "skipped": {"reason": "If Loop"},          not asked about
      "com.microsoft": {"MatMulNBits[bits=4]": "f32"},    operators of `CONTRIB_KEYS` -> types
      "naive_sums": true, ...                    `Flags`; false where not given
      "costs": {"unrolled_nodes": 48, ...}       `Costs`; the default where not given
    }

"18-" means every opset from 18 on that the runtime loads. A table that extends another one gives
the rows that differ; a row replaces the other one of the same operator key. "harmful_fusions" and
"com.microsoft" replace those of the other table as a whole.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

import onnx_ir as ir

from hlo2onnx.targets.costs import Costs, Flags
from hlo2onnx.targets.names import ALIASES, INSTEAD
from hlo2onnx.targets.target import (
    DEFAULT_OPSET,
    KNOWN,
    MIN_OPSET,
    PAIR_PARAMETERS,
    PairSupport,
    Support,
    Target,
    parse_ranges,
    schema_target,
    schemas,
)

SCHEMA_TARGET: Final = "onnx"
"""The target without a table: it allows what the standard allows."""

CONTRIB_DOMAIN: Final = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

CONTRIB_KEYS: Final = frozenset(
    {"GroupQueryAttention", "MatMulNBits[bits=4]", "MatMulNBits[bits=8]"}
)
"""Its operators that rules may make, with attributes that change what is supported."""

_FOLDER: Final = resources.files("hlo2onnx.targets").joinpath("tables")
_LIMITS: Final = ("min_opset", "max_opset", "default_opset", "max_ir_version")
_FLAGS: Final = tuple(field.name for field in fields(Flags))
_COSTS: Final = tuple(field.name for field in fields(Costs))
_ABOUT: Final = ("runtime", "runtime_version", "about", "known")
_TEXTS: Final = ("extends", "fallback", "onnx_version", *_ABOUT)
_ROWS: Final = ("ops", "wrong", "limited")
_PAIRS: Final = ("pairs", "wrong_pairs", "limited_pairs")
_NAMES: Final = ("harmful_fusions", "skipped", "costs", CONTRIB_DOMAIN)
_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    **dict.fromkeys(_TEXTS, (str, "a text")),
    **dict.fromkeys(_LIMITS, (int, "a whole number")),
    **dict.fromkeys(_FLAGS, (bool, "true or false")),
    **dict.fromkeys((*_ROWS, *_PAIRS, *_NAMES), (dict, "an object")),
}
_REQUIRED: Final = ("min_opset", "max_opset", "max_ir_version", "ops", "pairs")
_RANGES: Final = re.compile(r"\d+(-\d*)?(,\d+(-\d*)?)*")


def load_target(name: str) -> Target:
    """Return the target of that name: "onnx", a JSON table of this folder ("ort-cpu"), one of
    `ALIASES`, or the path of another table, which ends in ".json".

    Raises:
        ValueError: There is no such target; the message lists the known ones. Or the table is
            malformed; the message says where.
    """
    if not name.endswith(".json"):
        kind, at, version = name.partition("@")
        return _known_target(ALIASES.get(kind.lower(), kind) + at + version)
    own = Path(name).stem.replace("_", "-")
    try:
        if own == SCHEMA_TARGET:
            raise ValueError(f"{own!r} is the target of the standard; rename the file")
        table = json.loads(Path(name).read_text(encoding="utf-8"))
        _check(table)
        return _target(own, table)
    except json.JSONDecodeError as error:
        raise ValueError(f"target {name}: this is not JSON: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"target {name}: the file cannot be read: {error}") from error
    except ValueError as error:
        raise ValueError(f"target {name}: {error}") from error


def known_targets() -> list[str]:
    """The names of the targets that have a table here, and of the plain standard."""
    return sorted([*_tables(), SCHEMA_TARGET])


@cache
def _known_target(name: str) -> Target:
    return schema_target(SCHEMA_TARGET) if name == SCHEMA_TARGET else _target(name, _known(name))


@cache
def _tables() -> dict[str, Traversable]:
    return {file.name.removesuffix(".json"): file for file in _FOLDER.iterdir()}


def _known(name: str) -> Any:
    """The table of a name such as "ort-cpu" or "ort-cpu@1.20", or of a version of "ort-cpu".

    Raises:
        ValueError: There is none.
    """
    if name in _tables():
        return json.loads(_tables()[name].read_text(encoding="utf-8"))
    kind, _, version = name.partition("@")
    if version and kind in _tables():
        table = _known(kind)
        if f"{table['runtime_version']}.".startswith(f"{version}."):
            return table
    if name.lower() in INSTEAD:
        raise ValueError(f"target {name!r}: {INSTEAD[name.lower()]}; see docs/runtimes.md")
    raise ValueError(
        f"unknown target {name!r}; known targets: {', '.join(known_targets())}, or the path of a"
        " table, <name>.json; see docs/runtimes.md"
    )


def _extended(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table merged with the tables that it extends, except the schemas'."""
    name = table.get("extends", SCHEMA_TARGET)
    if name == SCHEMA_TARGET:
        return table
    base = _extended(_known(name))
    merged = {key: value for key, value in {**base, **table}.items() if key != "extends"}
    for section in (*_ROWS, *_PAIRS, "skipped", "costs"):
        merged[section] = {**base.get(section, {}), **table.get(section, {})}
    return {**merged, "extends": base["extends"]} if "extends" in base else merged


def _target(name: str, table: Mapping[str, Any]) -> Target:
    """Return the target of a parsed table.

    Raises:
        ValueError: A row is malformed, or the opsets are not a range.
    """
    own, table = table, _extended(table)
    base = _known_target(SCHEMA_TARGET) if "extends" in table else Target(name)
    given = {key: table[key] for key in (*_LIMITS, *_ABOUT) if key in table}
    given.setdefault("known", KNOWN[0])
    newest = given.get("max_opset", base.max_opset)
    if "default_opset" not in own:
        default = given.get("default_opset", DEFAULT_OPSET)
        given["default_opset"] = min(max(default, given.get("min_opset", MIN_OPSET)), newest)
    for key in ("ops", "pairs", "wrong", "limited", "limited_pairs"):
        parse = _pair_support if key in _PAIRS else _support
        rows = {op: parse(f"{key}: {op}", row, newest) for op, row in table.get(key, {}).items()}
        given[key] = {**getattr(base, key), **rows}
    given["contrib"] = {
        key: frozenset(_dtype(f"{CONTRIB_DOMAIN}: {key}", dtype) for dtype in types.split())
        for key, types in table.get(CONTRIB_DOMAIN, {}).items()
    }
    skipped = {op: reason for reason, ops in table.get("skipped", {}).items() for op in ops.split()}
    if "fallback" in table:
        fallback = _known_target(table["fallback"])
        if table.get("narrows_f64"):  # the runtime would narrow the f64 nodes of the fallback, too
            fallback = replace(fallback, flags=replace(fallback.flags, narrows_f64=True))
        given["fallback"] = fallback
    target = replace(
        base,
        name=name,
        skipped={**base.skipped, **skipped},
        harmful_fusions=frozenset(table.get("harmful_fusions", base.harmful_fusions)),
        flags=replace(base.flags, **{key: table[key] for key in _FLAGS if key in table}),
        costs=replace(base.costs, **table.get("costs", {})),
        **given,
    )
    opsets = (target.min_opset, target.default_opset, target.max_opset)
    if not MIN_OPSET <= opsets[0] <= opsets[1] <= opsets[2]:
        raise ValueError(
            "min_opset {}, default_opset {} and max_opset {} are not in order from {} on".format(
                *opsets, MIN_OPSET
            )
        )
    return target


# -- what a table may hold ----------------------------------------------------------------------


def _check(table: Any) -> None:
    """Raise ValueError unless all keys of the table are known and their values have the right
    kinds."""
    if not isinstance(table, dict):
        raise ValueError(f"a table must be a JSON object, not {type(table).__name__}")
    for key, value in table.items():
        if key not in _KINDS:
            raise ValueError(f"unknown key {key}{_advice(key, _KINDS)}")
        kind, called = _KINDS[key]
        if type(value) is not kind:
            raise ValueError(f"{key} is {json.dumps(value)[:40]}, not {called}")
    for reason, ops in table.get("skipped", {}).items():
        if not isinstance(ops, str):
            raise ValueError(f'skipped: {reason}: {ops!r} is not a text, such as "If Loop"')
    for key, types in table.get(CONTRIB_DOMAIN, {}).items():
        if key not in CONTRIB_KEYS:
            advice = _advice(key, CONTRIB_KEYS)
            raise ValueError(f"{CONTRIB_DOMAIN}: no rule makes {key}{advice}")
        if not isinstance(types, str):
            raise ValueError(f'{CONTRIB_DOMAIN}: {key}: {types!r} is not a text, such as "f32"')
    for name, cost in table.get("costs", {}).items():
        if name not in _COSTS:
            raise ValueError(f"unknown cost {name}{_advice(name, _COSTS)}")
        if type(cost) is not int or cost < 0:
            raise ValueError(
                f"costs: {name} is {json.dumps(cost)[:40]}, not a whole number of at least 0"
            )
    if table.get("known", KNOWN[0]) not in KNOWN:
        raise ValueError(f"known is {table['known']!r}, not one of {', '.join(KNOWN)}")
    missing = [key for key in _REQUIRED if key not in table and "extends" not in table]
    if missing:
        raise ValueError(
            f"it lacks {', '.join(missing)}; give them, or the target that it extends:"
            ' "extends": "ort-cpu"'
        )
    for key in (*_ROWS, *_PAIRS):
        for op in table.get(key, {}):
            _check_operator(key, op)


def _advice(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _check_operator(section: str, key: str) -> None:
    """Raise ValueError unless ONNX has the operator and the parameter in the key."""
    op_type, parameter = key.partition("[")[0].partition(".")[::2]
    known = schemas()
    if op_type not in known:
        raise ValueError(f"{section}: ONNX has no operator {op_type}{_advice(op_type, known)}")
    names = {item.name for schema in known[op_type].values() for item in schema.inputs}
    if parameter and parameter not in names:
        raise ValueError(f"{section}: {op_type} has no input {parameter}")
    if section in _PAIRS and key not in PAIR_PARAMETERS:
        raise ValueError(f"{section}: {key} is not one of {', '.join(PAIR_PARAMETERS)}")


def _pair_support(where: str, rows: Any, newest: int) -> PairSupport:
    """Parse {"f32": {"18-26": "i32 i64"}}."""
    return {
        _dtype(where, first): _support(f"{where}: {first}", row, newest)
        for first, row in _items(where, rows)
    }


def _support(where: str, row: Any, newest: int) -> Support:
    """Parse {"18-26": "f32 f64", "19,21-23": "bf16"}."""
    parsed: Support = {}
    for ranges, names in _items(where, row):
        if not _RANGES.fullmatch(ranges):
            raise ValueError(f'{where}: {ranges!r} is not a list of opsets, such as "18-20,23"')
        if not isinstance(names, str):
            raise ValueError(f'{where}: {names!r} is not a text of types, such as "f32 i64"')
        opsets = frozenset(parse_ranges(ranges, newest))
        for name in names.split():
            dtype = _dtype(where, name)
            parsed[dtype] = parsed.get(dtype, frozenset()) | opsets
    return parsed


def _items(where: str, row: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: {json.dumps(row)[:40]} is not an object")
    return row.items()


def _dtype(where: str, name: str) -> ir.DataType:
    try:
        return ir.DataType.from_short_name(name)
    except (KeyError, TypeError, ValueError):
        known = ", ".join(dtype.short_name() for dtype in ir.DataType if dtype.value)
        raise ValueError(f"{where}: unknown element type {name}; known: {known}") from None
