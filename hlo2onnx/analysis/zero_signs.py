"""Whether anything depends on the sign of a zero."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, const_of, dtype_of

MOST_READERS: Final = 64
"""Readers that are followed: a limit on compile time."""

_FORGETS = frozenset(
    {"Abs", "Cos", "Cosh", "Equal", "Exp", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less",
     "LessOrEqual", "Shape", "Sigmoid", "Size"}
)  # fmt: skip
"""Operators that give the same result for 0 and -0."""

_KEEPS = frozenset(
    {"Add", "Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Gemm", "MatMul",
     "Mul", "Neg", "Pad", "ReduceMean", "ReduceSum", "Reshape", "Slice", "Split", "Squeeze", "Sub",
     "Tile", "Transpose", "Unsqueeze", "Where"}
)  # fmt: skip
"""Operators whose results then differ, if at all, in the sign of zeros only."""


def is_zero_sign_lost(value: oir.Value) -> bool:
    """Whether no result of the graph depends on the signs of the zeros of a value.

    All paths from it must lead through sums, products and moves to an operator that gives the same
    for 0 and -0, such as a later `x + 0`. Outputs of graphs, loops and branches show the sign.
    """
    pending, seen = [value], {value}
    while pending:
        here = pending.pop()
        if here.is_graph_output() or len(seen) > MOST_READERS:
            return False
        for reader, place in here.uses():
            if _forgets(reader, place):
                continue
            is_kept = reader.op_type in _KEEPS or (reader.op_type == "Div" and place == 0)
            if reader.domain or not is_kept:
                return False
            pending += [result for result in reader.outputs if result not in seen]
            seen.update(reader.outputs)
    return True


def _forgets(reader: oir.Node, place: int) -> bool:
    """Whether the result of a node is the same for both zeros of one of its operands."""
    if reader.domain:
        return False
    if reader.op_type == "Cast":
        return dtype_of(reader.outputs[0]) not in FLOATS
    if reader.op_type == "Add":
        known = const_of(reader.inputs[1 - place])
        return known is not None and not (known != 0).any() and not np.signbit(known).any()
    return reader.op_type in _FORGETS
