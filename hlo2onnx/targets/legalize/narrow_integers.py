"""Integers in a runtime that computes those of 64 bits in 32, and some operators in f32.

A node is right there if its operands and results fit. What only moves, and what the runtime
computes rightly on 32 bits, must fit into these; the rest into f32. Such a runtime may hold u32 in
32 bits with a sign: numbers that it orders must fit into those, too.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as oir

from hlo2onnx.analysis.facts import Facts
from hlo2onnx.analysis.ranges import range_of_type
from hlo2onnx.ir.values import INTEGERS, dtype_of
from hlo2onnx.targets.legalize.carriers import MOVES
from hlo2onnx.targets.target import Target, main_dtype, node_key, node_pairs

T = oir.DataType

_NARROWED: Final = {T.INT64: T.INT32, T.UINT64: T.UINT32}
WIDE: Final = frozenset({T.INT32, T.INT64, T.UINT32, T.UINT64})
_ORDERS: Final = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_COMPARES: Final = _ORDERS | {"Equal"}
_LARGEST: Final = 1 << 24
"""f32 holds all whole numbers up to it."""


def fits(node: oir.Node, facts: Facts, target: Target, opset: int) -> bool:
    """Whether all integers that a node computes with, and its results, are so small that the
    runtime is right. It must be right for small numbers."""
    values = node.outputs if node.op_type in MOVES else (*node.inputs, *node.outputs)
    wide = [x for x in values if x is not None and x.dtype in WIDE]
    low, high = range_of_type(T.INT32)
    held = {*_NARROWED, T.UINT32} if node.op_type in _ORDERS else {*_NARROWED}
    if not all(_is_within(x, facts, low, high) for x in wide if x.dtype in held):
        return False
    if node.op_type == "Cast" and _is_narrow(node.outputs[0]):
        low, high = range_of_type(dtype_of(node.outputs[0]))
        return all(_is_within(x, facts, low, high) for x in node.inputs if x is not None)
    if _is_exact_in_32_bits(node, target, opset):
        return True
    small = [_is_within(x, facts, 1 - _LARGEST, _LARGEST - 1) for x in wide]
    # Rounding keeps the order, and no number is rounded to one that f32 holds from beyond 2^24.
    return any(small) if node.op_type in _COMPARES else all(small)


def _is_narrow(x: oir.Value) -> bool:
    return dtype_of(x) in INTEGERS and dtype_of(x).bitwidth < 32


def chooses_rightly(node: oir.Node, facts: Facts) -> bool:
    """Whether a Where is right if it is computed in f32 behind a comparison."""
    condition, *chosen = [x for x in node.inputs if x is not None]
    if condition.producer() is None or dtype_of(chosen[0]) not in WIDE:
        return True
    return all(_is_within(x, facts, 1 - _LARGEST, _LARGEST - 1) for x in chosen)


def _is_exact_in_32_bits(node: oir.Node, target: Target, opset: int) -> bool:
    """Whether the runtime computes the node, with its integers of 64 bits in 32, in integers."""
    pairs = node_pairs(node)
    if not pairs:
        own = T.UINT32 if main_dtype(node) == T.UINT32 else T.INT32
        return target.supports(node_key(node), own, opset)
    return all(
        target.supports_pair(key, _NARROWED.get(first, first), _NARROWED.get(second, second), opset)
        for key, first, second in pairs
    )


def _is_within(x: oir.Value, facts: Facts, low: int, high: int) -> bool:
    known = facts.int_range(x)
    return known is not None and known.within(low, high)


def why_not(dtype: oir.DataType, target: str) -> tuple[str, str]:
    """Why integers that do not fit are refused, and what the user can do."""
    if dtype in _NARROWED:
        return (
            f"{target} computes 64-bit integers in 32 bits, and these may not fit",
            "convert to int32 before this op, or clamp to numbers of 32 bits",
        )
    return (
        f"{target} computes large integers in f32, and these may not fit",
        "convert to int16 before this op, or clamp to numbers below 2^24",
    )
