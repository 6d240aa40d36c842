"""Integers in a runtime that computes those of 64 bits in 32, and some operators in f32.

A node is right there if its operands and results fit. What only moves, and what the runtime
computes rightly on 32 bits, must fit into these; the rest into f32.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as oir

from hlo2onnx.analysis.facts import Facts
from hlo2onnx.analysis.ranges import range_of_type
from hlo2onnx.targets.legalize.carriers import MOVES
from hlo2onnx.targets.target import Target, node_key

_64_BITS: Final = frozenset({oir.DataType.INT64, oir.DataType.UINT64})
WIDE: Final = _64_BITS | {oir.DataType.INT32, oir.DataType.UINT32}
_COMPARES: Final = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_LARGEST: Final = 1 << 24
"""f32 holds all whole numbers up to it."""


def fits(node: oir.Node, facts: Facts, target: Target, opset: int) -> bool:
    """Whether all integers that a node computes with, and its results, are so small that the
    runtime is right. It must be right for small numbers."""
    values = node.outputs if node.op_type in MOVES else (*node.inputs, *node.outputs)
    wide = [x for x in values if x is not None and x.dtype in WIDE]
    low, high = range_of_type(oir.DataType.INT32)
    if not all(_is_within(x, facts, low, high) for x in wide if x.dtype in _64_BITS):
        return False
    if node.op_type in MOVES or target.supports(node_key(node), oir.DataType.INT32, opset):
        return True
    small = [_is_within(x, facts, 1 - _LARGEST, _LARGEST - 1) for x in wide]
    # Rounding keeps the order, and no number is rounded to one that f32 holds from beyond 2^24.
    return any(small) if node.op_type in _COMPARES else all(small)


def _is_within(x: oir.Value, facts: Facts, low: int, high: int) -> bool:
    known = facts.int_range(x)
    return known is not None and known.within(low, high)
