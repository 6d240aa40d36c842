"""Constant folding with a bound on what it may store."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import MOVES, OPERATORS, Unknown, evaluate
from hlo2onnx.ir.notes import HALF_TYPES
from hlo2onnx.ir.op_families import ELEMENTWISE as ELEMENTWISE_OPERATORS
from hlo2onnx.ir.values import (
    FLOATS,
    INTEGERS,
    const_ints,
    const_of,
    dtype_of,
    is_constant,
    present,
    size_of,
    static_shape,
)
from hlo2onnx.ir.weights import SMALL_ELEMENTS, detached, weight_of
from hlo2onnx.raising.engine import CONSTANT, Refusal, Rewriter, Rule, need

# Limits on the size of the model and on compile time, not costs:
MOVED_ELEMENTS = 1 << 12
"""Elements of a constant that may always be made by moving others."""

COMPUTED_ELEMENTS = 1 << 14
"""Elements that may always be made by computing: a mask of 128 tokens."""

WEIGHT_ELEMENTS = 1 << 10
"""Folding of weights may add a constant of up to this many elements."""

MOST_ELEMENTS = 1 << 18
"""Elements if an operand has as many: the parameters of a normalization."""

_MOVES = MOVES.keys() - {"Identity", "Pad", "ScatterND"}
"""Operators that give elements in another shape or order, without elements of other tensors."""

_PASS_ON = ELEMENTWISE_OPERATORS | {"Concat", "Expand", "Gather"}
"""Operators that accept one element instead of a repeated one, or pass it on."""


def _is_final(x: oir.Value) -> bool:
    """Whether all readers, also through reshapes, read every element."""
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
    if an operand has as many bytes. A result of weights has at most 1,024. A result may also have
    as many bytes as an operand that only this node reads, such as a transposed weight. An expanded
    constant is folded if it is an index or if no reader broadcasts by itself. Weights, and
    constants of floats or of 8 bits and fewer, are not cast to wider types, unless they have at
    most 16 elements (4,096 of a half type to f32, but not weights) or the opset has no cast of
    their type, such as int4 before opset 21.
    """

    name = "fold-constants"
    anchors = OPERATORS - {"Identity"}
    sources = frozenset({CONSTANT})

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """All operands are constant."""
        return sources == self.sources

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        inputs = present(node.inputs)
        need(all(map(is_constant, inputs)), "an operand is computed at run time", node)
        dims = static_shape(node.outputs[0])
        need(dims is not None, "its shape is dynamic", node)
        if node.op_type == "Expand":
            is_index = size_of(inputs[0]) != 1 and dtype_of(node.outputs[0]) in INTEGERS
            is_final = is_index or _is_final(node.outputs[0])
            need(is_final, "readers that broadcast take it unexpanded", node)
        need(self._affordable(node, math.prod(dims or ()), b), "it would take more memory", node)
        # What a weight is computed by outlives the node.
        copy = detached(node) if any(map(weight_of, inputs)) else node
        try:
            return b.derived(
                lambda *arrays: evaluate(copy, list(arrays)),
                *inputs,
                is_moved=node.op_type in _PERMUTES,
            )
        except Unknown as unknown:
            raise Refusal(str(unknown), node) from None

    def _affordable(self, node: oir.Node, elements: int, b: Rewriter) -> bool:
        if _widens(node):
            x = present(node.inputs)[0]
            is_read = b.target.supports_cast(dtype_of(x), oir.DataType.FLOAT, b.opset)
            is_half = dtype_of(x) in HALF_TYPES and weight_of(x) is None
            return elements <= (MOVED_ELEMENTS if is_half else SMALL_ELEMENTS) or not is_read
        moves = node.op_type in _MOVES
        is_weight = any(weight_of(x) is not None for x in node.inputs)
        limit = MOVED_ELEMENTS if moves else COMPUTED_ELEMENTS
        if elements <= (WEIGHT_ELEMENTS if is_weight else limit):
            return True
        size = elements * dtype_of(node.outputs[0]).bitwidth
        return any(
            size <= (size_of(x) or 0) * dtype_of(x).bitwidth
            and (len(x.uses()) == 1 or not (moves or is_weight or elements > MOST_ELEMENTS))
            for x in present(node.inputs[:1] if moves else node.inputs)
        )


class FoldTopK(Rule):
    """TopK(constant, k) -> constants

    Legal for integers, and for floats without NaN. Of equal elements the one with the lower index
    comes first, as ONNX says. The operand has at most 4,096 elements.
    """

    name = "fold-top-k"
    anchors = frozenset({"TopK"})
    sources = frozenset({CONSTANT})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        x, most = const_of(node.inputs[0]), const_ints(node.inputs[1])
        if x is None or most is None:
            raise Refusal("an operand is computed at run time", node)
        need(x.dtype.kind in "iuf" and x.size <= MOVED_ELEMENTS, "it has too many elements", node)
        need(node.attributes.get_int("sorted", 1), "the runtime chooses the order", node)
        need(not np.isnan(x).any(), "runtimes sort NaN differently", node)
        axis = node.attributes.get_int("axis", -1)
        if node.attributes.get_int("largest", 1):  # the last of equal ones is the first one here
            order = np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
            order = x.shape[axis] - 1 - order
        else:
            order = np.argsort(x, axis, kind="stable")
        chosen = np.take(order, range(most[0]), axis)
        return [b.const(np.take_along_axis(x, chosen, axis)), b.const(chosen)]


_PERMUTES = frozenset({"Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators whose result has each element of their first operand once."""


def _widens(node: oir.Node) -> bool:
    """Whether a node casts numbers that are stored in a narrow type to a wider one."""
    x = node.inputs[0]
    if node.op_type != "Cast" or x is None:
        return False
    source = dtype_of(x)
    is_stored = weight_of(x) is not None or source in FLOATS or source.bitwidth <= 8
    is_stored = is_stored and source != oir.DataType.BOOL
    return is_stored and dtype_of(node.outputs[0]).bitwidth > source.bitwidth
