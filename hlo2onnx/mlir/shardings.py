"""Where a program says how it is spread over devices."""

from __future__ import annotations

from typing import Any

SHARDINGS = frozenset({"mhlo.sharding", "sdy.sharding", "sdy.sharding_per_value"})
"""Attributes that place a value on devices and change nothing else."""


def boundary_attributes(function: Any) -> set[str]:
    """Names of the attributes on the arguments and results of a `func.func`."""
    present = _names(function.attributes)
    entries = [
        entry
        for where in ("arg_attrs", "res_attrs")
        if where in present
        for entry in function.attributes[where]
    ]
    return {name for entry in entries for name in _names(entry)}


def _names(attributes: Any) -> list[str]:
    return [item if isinstance(item, str) else item.name for item in attributes]
