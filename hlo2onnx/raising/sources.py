"""What makes the operands of a node: by their operators the engine chooses the rules to try."""

from __future__ import annotations

import math

import onnx_ir as oir

CONSTANT = "constant"
"""Among the sources of a rule: a constant, which no operator makes."""

ARGUMENT = "argument"
"""Among the sources of a node: an input of the model or of a body."""

KEEP_CONSTANTS = frozenset({CONSTANT, "Expand", "Identity", "Reshape", "Transpose"})
"""Sources whose results `Facts.constant` may know."""

NUMBERS = (0.0, 1.0, 2.0, math.inf, -math.inf)
"""Numbers that rules look for in constants."""

OTHER = math.nan
"""Stands for all numbers but these."""


def sources_of(node: oir.Node) -> set[str]:
    """The operators that make the operands of a node, `CONSTANT` if one is constant, and
    `ARGUMENT` if one is an input."""
    return set(sources_in_order(node))


def sources_in_order(node: oir.Node) -> tuple[str, ...]:
    """The source of each operand, see `sources_of`."""
    found = [
        (ARGUMENT if x.const_value is None else CONSTANT)
        if (maker := x.producer()) is None
        else maker.op_type
        for x in node.inputs
        if x is not None
    ]
    return tuple(found)
