"""Constants give results the axes of 1 that a Reshape adds."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.op_families import BROADCASTING, UNARY
from hlo2onnx.ir.values import const_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import RESHAPES, first, is_private

DEEPEST = 8
"""Nodes between the Reshape and the constant: a limit on compile time, no cost."""


class ConstantUnitDims(Rule):
    """Reshape(f(Mul(c, x)), (1, n)) -> f(Mul(c', x)), c' = Reshape(c, (1, n)), for a constant c

    Legal for elementwise operators if the Reshape only adds leading axes of 1, and nothing else
    reads the values in between. A constant of several elements must have no other reader: the
    model would hold it twice. Programs make vectors of scalars like this, one by one.
    """

    name = "constant-unit-dims"
    anchors = RESHAPES
    sources = BROADCASTING | UNARY
    # Other rules look for constants of one number, and for the Reshapes.
    phase = 4

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        before, after = shape_of(first(node)), shape_of(node.outputs[0])
        added = len(after) - len(before)
        adds_units = added > 0 and after[added:] == before and set(after[:added]) == {1}
        need(adds_units, "it does not only add leading axes of 1", node)
        result = _with_units(b, first(node), node, added, DEEPEST)
        return needed(result, "no constant is an operand of what it reshapes", node)


def _with_units(
    b: Rewriter, value: oir.Value, reshape: oir.Node, added: int, deepest: int
) -> oir.Value | None:
    """The value with leading axes of 1, from a constant that has them; None if there is none."""
    node, dims = value.producer(), shape_of(value)
    if node is None or node.domain or not deepest or node.graph is not reshape.graph:
        return None
    if node.op_type not in BROADCASTING | UNARY or not is_private(value):
        return None
    inputs = list(node.inputs)
    for place, x in enumerate(inputs):
        array = const_of(x)
        if x is not None and array is not None and (array.size == 1 or is_private(x)):
            units = (1,) * (len(dims) + added - array.ndim)
            inputs[place] = b.const(array.reshape(units + array.shape))
            return b.like(node, inputs)
    for place, x in enumerate(inputs):
        if x is not None and rank_of(x) == len(dims):
            inputs[place] = _with_units(b, x, reshape, added, deepest - 1)
            if inputs[place] is not None:
                return b.like(node, inputs)
            inputs[place] = x
    return None
