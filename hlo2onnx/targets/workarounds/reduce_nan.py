"""The largest and smallest of floats, for runtimes whose ReduceMax and ReduceMin lose NaN."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.analysis.facts import Facts
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import attributes_of
from hlo2onnx.rewrite.replace import replace


def guard_nan(node: oir.Node, builder: GraphBuilder, facts: Facts) -> bool:
    """Makes ReduceMax or ReduceMin give NaN where there is one; False if there can be none.

    A sum of non-negative numbers is NaN for no other reason than a NaN among them: no infinities
    cancel and overflow gives +inf.
    """
    x, *axes = node.inputs
    assert x is not None
    if facts.nan_free(x):
        return False
    with builder.before(node):
        terms = x if facts.float_range(x).low >= 0 else builder.Relu(x)
        witness = builder.op("ReduceSum", terms, *axes, **attributes_of(node))
        numbers = builder.like(node, [x, *axes])
        result = builder.Where(builder.IsNaN(witness), witness, numbers)
    replace(node, [result])
    return True
