"""Floats whose sign bits are 0."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, const_of, dtype_of, present

MOST_NODES: Final = 16
"""Longest chain of nodes that is followed: a limit on compile time."""

_WITHOUT = frozenset(
    {"Abs", "Exp", "ReduceL1", "ReduceL2", "ReduceSumSquare", "Sigmoid", "Softmax"}
)
"""Operators whose results have no sign, whatever their operands are."""

_KEEP = frozenset(
    {"Add", "Concat", "Div", "Expand", "Gather", "GatherElements", "Identity", "Max", "Min", "Mul",
     "ReduceMean", "ReduceMin", "ReduceSum", "Reshape", "Slice", "Split", "Sqrt",
     "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"}
)  # fmt: skip
"""Operators whose results have no sign if none of their float operands has one."""


def has_no_sign(value: oir.Value, depth: int = MOST_NODES) -> bool:
    """Whether the sign bits of all floats but NaN are 0: none is negative or -0."""
    known, node = const_of(value), value.producer()
    if known is not None:
        return not (np.signbit(known) & ~np.isnan(known)).any()
    if node is None or node.domain or not depth:
        return False
    if node.op_type in _WITHOUT:
        return True
    inputs = present(node.inputs)
    if node.op_type == "Mul" and inputs[0] is inputs[1]:
        return True
    floats = [x for x in inputs if dtype_of(x) in FLOATS]
    return node.op_type in _KEEP and all(has_no_sign(x, depth - 1) for x in floats)
