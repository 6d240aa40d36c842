"""Axes of 1 that only a constant has, for runtimes whose fusions drop the constant.

`Mul(Div([1], x), y)` with scalars x and y has the shape (1,). A runtime that writes Div(y, x) in
its place gives a scalar. So do the fusions that make Gelu, FastGelu, QuickGelu,
SimplifiedLayerNormalization and MatMulIntegerToFloat, with each of their constants.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import FLOATS, dtype_of, is_constant, rank_of, size_of


def move_axes(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A node of floats in which a constant of one number has the most axes, with these axes on its
    other operand instead; None for others."""
    x, c = node.inputs
    assert x is not None and c is not None
    if is_constant(x):
        x, c = c, x
    added = rank_of(c) - rank_of(x)
    if dtype_of(x) not in FLOATS or not is_constant(c) or size_of(c) != 1 or added <= 0:
        return None
    number = builder.derived(lambda array: array.reshape(()), c, is_moved=True)
    wider = builder.unsqueeze(x, range(added))
    return builder.like(node, [number, wider] if c is node.inputs[0] else [wider, number])
