"""Signs of floats: sign bits that are 0, and zeros whose sign nothing depends on."""

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
    """Whether the sign bits of all floats except NaN are 0: none is negative or -0."""
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
        other = reader.inputs[1 - place]  # -0 + -0 is -0: twice the same value does not hide it
        return other is not reader.inputs[place] and is_never_negative_zero(other)
    return reader.op_type in _FORGETS


def is_never_negative_zero(value: oir.Value | None) -> bool:
    """Whether no element of a float tensor is -0, by what it is made of: x - y is -0 only for
    -0 - 0, and x + y only for -0 + -0."""
    known = const_of(value)
    if known is not None:
        return not (np.signbit(known) & (known == 0)).any()
    node = None if value is None else value.producer()
    if value is None or node is None:
        return False
    if node.domain or node.op_type not in ("Add", "Sub"):
        return has_no_sign(value)
    terms = node.inputs if node.op_type == "Add" else node.inputs[:1]
    return any(const_of(x) is not None and is_never_negative_zero(x) for x in terms)
