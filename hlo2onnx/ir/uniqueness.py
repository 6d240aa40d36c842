"""Integer values without two equal elements, or without two equal rows."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import known_elements
from hlo2onnx.ir.ranges import RangeOf, decided_branch, range_of_type
from hlo2onnx.ir.values import INTEGERS, dtype_of, rank_of, size_of, static_shape

_SAME_ELEMENTS = frozenset({"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def distinct_rows(value: oir.Value, range_of: RangeOf) -> bool:
    """Whether all vectors along the last axis are provably different."""
    dims = static_shape(value)
    if not dims or dtype_of(value) not in INTEGERS:
        return False
    if math.prod(dims[:-1]) <= 1:
        return True
    known = known_elements(value)
    if known is not None:
        rows = known.reshape(math.prod(dims[:-1]), dims[-1])
        return len(np.unique(rows, axis=0)) == len(rows)
    node = value.producer()
    if node is not None and node.op_type == "Concat":
        if node.attributes.get_int("axis", 0) == rank_of(value) - 1:
            # One column that tells all rows apart is enough.
            return any(distinct_rows(x, range_of) for x in node.inputs if x is not None)
        return False
    if dims[-1] == 1:
        return distinct(value, range_of)
    if node is not None and node.op_type == "Cast" and node.inputs[0] is not None:
        return _keeps_apart(node, range_of) and distinct_rows(node.inputs[0], range_of)
    return False


_DEEPEST = 64
"""Longer chains of ops are not followed."""


def distinct(value: oir.Value, range_of: RangeOf, depth: int = _DEEPEST) -> bool:
    """Whether all elements are provably different."""
    dims = static_shape(value)
    if dims is None or dtype_of(value) not in INTEGERS or not depth:
        return False
    if math.prod(dims) <= 1:
        return True
    known = known_elements(value)
    if known is not None:
        return np.unique(known).size == known.size
    node = value.producer()
    if node is None:
        return False
    if node.op_type == "Range":
        return True
    x = node.inputs[0]
    if x is None:
        return False
    if node.op_type in _SAME_ELEMENTS:
        return distinct(x, range_of, depth - 1)
    if node.op_type == "Cast":
        return _keeps_apart(node, range_of) and distinct(x, range_of, depth - 1)
    if node.op_type == "TopK":
        # Places of the greatest elements of one row.
        return value is node.outputs[1] and dims[-1] == math.prod(dims)
    if node.op_type == "Where":
        branch = decided_branch(node, range_of)
        return branch is not None and distinct(branch, range_of, depth - 1)
    return _shifted_apart(node, range_of, depth)


def _keeps_apart(cast: oir.Node, range_of: RangeOf) -> bool:
    """Whether a Cast between integer types does not wrap."""
    (x,) = cast.inputs
    assert x is not None
    known = range_of(x)
    return known is not None and known.within(*range_of_type(dtype_of(cast.outputs[0])))


def _shifted_apart(node: oir.Node, range_of: RangeOf, depth: int) -> bool:
    """Whether the node is distinct + scalar or distinct - scalar. Wrapping keeps elements
    different."""
    if node.op_type not in ("Add", "Sub"):
        return False
    total = size_of(node.outputs[0])
    for x, by in (node.inputs, node.inputs[::-1]):
        assert x is not None and by is not None
        if size_of(by) == 1 and size_of(x) == total:
            return distinct(x, range_of, depth - 1)
    return False
