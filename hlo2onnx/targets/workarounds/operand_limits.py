"""Kernels that give wrong numbers for some operands: the operands for which they are right.

Measured in ONNX Runtime 1.31 (`wrong` in ort-cpu.json): kernels that order INT64 elements compare
low halves as signed numbers where the high halves are equal, so they are right within 32 bits.
Kernels that add integers do it in f64 and saturate, so they are right if all sums are exact in f64
and the type holds the last one.
"""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.targets.decompositions.integer_ops import reduced_axes

_ORDERS = frozenset({"Clip", "Max", "Min", "ReduceMax", "ReduceMin", "Relu", "Sign"})
_SUMS = frozenset({"ReduceL1", "ReduceSum", "ReduceSumSquare"})

_EXACT_IN_F64 = 1 << 53
_ANY_EXTENT = 1 << 31
"""More elements than a dynamic extent can have."""


def is_right_here(node: oir.Node, facts: Facts, is_limited: bool, sums_in_f64: bool) -> bool:
    """Whether a kernel that gives wrong numbers is right for all operands this node can have.

    Args:
        is_limited: Whether it is right for integers that fit into 32 bits.
        sums_in_f64: Whether the runtime adds integers in f64, see `Flags`.
    """
    if node.op_type in _ORDERS and is_limited:
        operands = node.inputs[:1] if node.op_type.startswith("Reduce") else node.inputs
        low, high = range_of_type(oir.DataType.INT32)
        bounds = [facts.int_range(x) for x in operands if x is not None]
        return all(known is not None and known.within(low, high) for known in bounds)
    return sums_in_f64 and node.op_type in _SUMS and _sums_fit(node, facts)


def _sums_fit(node: oir.Node, facts: Facts) -> bool:
    x, axes = node.inputs[0], reduced_axes(node)
    assert x is not None
    bounds = facts.int_range(x)
    if bounds is None or axes is None:
        return False
    extents = [shape_of(x)[axis] for axis in axes]
    count = math.prod(extent if isinstance(extent, int) else _ANY_EXTENT for extent in extents)
    size = max(-bounds.low, bounds.high)
    term = size * size if node.op_type == "ReduceSumSquare" else size
    return term * count <= min(range_of_type(dtype_of(x)).high, _EXACT_IN_F64)
