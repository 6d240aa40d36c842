"""Extremes of floats, for runtimes whose ReduceMax and ReduceMin lose NaN."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.analysis.facts import Facts
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import attributes_of, dtype_of, shape_of


def guard_nan(builder: GraphBuilder, node: oir.Node, facts: Facts) -> oir.Value | None:
    """A ReduceMax or ReduceMin that gives NaN where there is one; None if there can be none.

    A sum of non-negative numbers is NaN only if one of them is: infinities do not cancel, and
    overflow gives +inf.
    """
    x, *axes = node.inputs
    assert x is not None
    if facts.nan_free(x):
        return None
    types = [(dtype_of(node.outputs[0]), shape_of(node.outputs[0]))]
    terms = x if facts.float_range(x).low >= 0 else builder.Relu(x)
    witness = builder.op("ReduceSum", terms, *axes, types=types, **attributes_of(node))
    numbers = builder.like(node, [x, *axes], types)
    return builder.Where(builder.IsNaN(witness), witness, numbers)
