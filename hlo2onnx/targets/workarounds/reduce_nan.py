"""Extremes of floats, for runtimes whose ReduceMax and ReduceMin lose NaN."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.signs import has_no_sign
from hlo2onnx.ir.values import attributes_of, dtype_of, shape_of, size_of
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.workarounds.softmax_maximum import is_of_softmax

_LIMITS = {"ReduceMax": ("Max", "Min", -1.0), "ReduceMin": ("Min", "Max", 1.0)}
"""For each reduction its operator of two numbers, the opposite one, and a number."""


def guard_nan(builder: TargetBuilder, node: oir.Node, facts: Facts) -> oir.Value | None:
    """A ReduceMax or ReduceMin that gives NaN where there is one.

    A sum of non-negative numbers is NaN only if one of them is: infinities do not cancel, and
    overflow gives +inf. Where Max and Min keep NaN, such a sum can be an operand of theirs, for
    tensors that have elements: max(ReduceMax(x), ReduceSum(min(x, -1))) is one node less. The sum
    is not above any element, so that it decides the result only if it is NaN. It is not 0, so that
    the sign of a 0 stays. Of numbers without signs the sum itself is not below any element, as
    rounding is monotonic: min(ReduceMax(x), ReduceSum(x)) is another node less.

    Returns:
        None if there can be no NaN, or if the readers give NaN all the same.
    """
    x, *axes = node.inputs
    assert x is not None
    if facts.nan_free(x) or is_of_softmax(node):
        return None
    dtype = dtype_of(x)
    types = [(dtype_of(node.outputs[0]), shape_of(node.outputs[0]))]
    op_type, opposite, item = _LIMITS[node.op_type]
    is_small = 0 < (size_of(x) or 0) <= builder.costs.bounded_extreme_elements
    bounds = is_small and all(builder.supports(each, dtype) for each in ("Max", "Min"))
    is_below = bounds and node.op_type == "ReduceMax" and has_no_sign(x)
    if is_below:
        op_type, terms = opposite, x
    elif bounds:
        terms = builder.op(opposite, x, builder.scalar(item, dtype))
    else:
        terms = x if facts.float_range(x).low >= 0 else builder.Relu(x)
    witness = builder.op("ReduceSum", terms, *axes, types=types, **attributes_of(node))
    numbers = builder.like(node, [x, *axes], types)
    if bounds:
        return builder.op(op_type, numbers, witness)
    return builder.Where(builder.IsNaN(witness), witness, numbers)
