"""Constant folding with a bound on what it may store."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.analysis.evaluator import MOVES, OPERATORS, Unknown, evaluate
from hlo2onnx.ir.op_families import ELEMENTWISE as ELEMENTWISE_OPERATORS
from hlo2onnx.ir.values import INTEGERS, complete, const_of, dtype_of, present, static_shape
from hlo2onnx.ir.weight_names import inherit_name
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need

# Limits on the size of the model and on compile time, no costs:
MOVED_ELEMENTS = 1 << 12
"""Elements of a constant that may always be made by moving others."""

COMPUTED_ELEMENTS = 1 << 14
"""Elements that may always be made by computing: a mask of 128 tokens."""

MOST_ELEMENTS = 1 << 18
"""Elements if an operand has as many: the parameters of a normalization."""

_MOVES = MOVES.keys() - {"Identity", "Pad", "ScatterND"}
"""Operators that give elements in another shape or order, without elements of other tensors."""

_PASS_ON = ELEMENTWISE_OPERATORS | {"Concat", "Expand", "Gather"}
"""Operators that take one element instead of a repeated one, or pass it on."""


def _is_final(x: oir.Value) -> bool:
    """Whether all readers, behind reshapes too, read every element."""
    if x.is_graph_output():
        return False
    return all(
        reader.op_type not in _PASS_ON
        and (reader.op_type not in _MOVES or _is_final(reader.outputs[0]))
        for reader in x.consumers()
    )


class FoldConstants(Rule):
    """Op(constants) -> constant

    Legal for data movement, selection, casts that numpy gets right, comparisons, logic, and the
    arithmetic that IEEE 754 and two's complement define exactly. Functions and sums of f32 are
    evaluated in f64 and rounded once.

    A result of moves has at most 4,096 elements. A computed result has at most 16,384, or 262,144
    if an operand has as many. A result may also be as large as an operand that only this node
    reads, such as a transposed weight. An expanded constant is folded if it is an index or if no
    reader broadcasts by itself.
    """

    name = "fold-constants"
    anchors = OPERATORS - {"Identity"}

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        inputs = complete(map(const_of, present(node.inputs)))
        if inputs is None:
            raise Refusal("an operand is computed at run time", node)
        dims = static_shape(node.outputs[0])
        need(dims is not None, "its shape is dynamic", node)
        if node.op_type == "Expand":
            is_index = inputs[0].size > 1 and dtype_of(node.outputs[0]) in INTEGERS
            is_final = is_index or _is_final(node.outputs[0])
            need(is_final, "readers that broadcast take it unexpanded", node)
        need(self._affordable(node, int(np.prod(dims or ()))), "it would store more", node)
        try:
            folded = b.const(evaluate(node, inputs))
        except Unknown as unknown:
            raise Refusal(str(unknown), node) from None
        inherit_name(node.inputs, folded)
        return folded

    def _affordable(self, node: oir.Node, elements: int) -> bool:
        moves = node.op_type in _MOVES
        if elements <= (MOVED_ELEMENTS if moves else COMPUTED_ELEMENTS):
            return True
        return any(
            x is not None
            and x.const_value is not None
            and elements <= x.const_value.size
            and (len(x.uses()) == 1 or (not moves and elements <= MOST_ELEMENTS))
            for x in (node.inputs[:1] if moves else node.inputs)
        )
