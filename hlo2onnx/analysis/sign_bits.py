"""Floats whose sign bits are 0."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, const_of, dtype_of, present

MOST_VALUES: Final = 64
"""Values that are followed: a limit on translation time."""

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


def has_no_sign(value: oir.Value) -> bool:
    """Whether the sign bits of all floats but NaN are 0: none is negative or -0."""
    pending, seen = [value], {value}
    while pending:
        x = pending.pop()
        known, node = const_of(x), x.producer()
        if known is not None:
            if (np.signbit(known) & ~np.isnan(known)).any():
                return False
            continue
        if node is None or node.domain or len(seen) > MOST_VALUES:
            return False
        if not _clears_signs(node):
            if node.op_type not in _KEEP:
                return False
            floats = [x for x in present(node.inputs) if dtype_of(x) in FLOATS and x not in seen]
            pending += floats
            seen.update(floats)
    return True


def _clears_signs(node: oir.Node) -> bool:
    is_square = node.op_type == "Mul" and node.inputs[0] is node.inputs[1]
    return is_square or node.op_type in _WITHOUT
