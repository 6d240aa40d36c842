"""Interleaved tensors, as an associative scan joins its halves."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, dtype_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, needed
from hlo2onnx.raising.match.spread import Dims, Spread, spread_of
from hlo2onnx.raising.match.views import RESHAPES, operands


class Interleave(Rule):
    """Add(x with gaps, y in the gaps) -> Add(Gather(Concat(x, y)), 0)

    Legal if both are spread with zeros along one axis and x has every second element. Adding 0
    turns -0 into +0, as the zeros of the other operand did. For integers nothing is added.
    """

    name = "interleave"
    anchors = frozenset({"Add"})
    sources = RESHAPES | {"Pad", "Slice"}

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        dims = needed(static_shape(node.outputs[0]), "its shape is dynamic", node)
        spreads = [spread_of(x) for x in operands(node)]
        for axis, (even, odd) in product(range(len(dims)), (spreads, spreads[::-1])):
            half = (dims[axis] + 1) // 2
            if _is_every_second(even, dims, axis, 0) and _is_every_second(odd, dims, axis, 1):
                order = np.arange(2 * half).reshape(2, half).T.reshape(-1)[: dims[axis]]
                both = b.concat([b.reshape(item.x, item.dims) for item in (even, odd)], axis)
                if len(order) > 2:
                    both = b.Gather(both, b.const(order), axis=axis)
                return b.Add(both, even.zero) if dtype_of(both) in FLOATS else both
        raise Refusal("their elements do not alternate", node)


def _is_every_second(item: Spread, dims: Dims, axis: int, start: int) -> bool:
    """Whether the elements are every second one along an axis of this shape."""
    count = (dims[axis] + 1 - start) // 2
    starts, steps = ([other] * len(dims) for other in (0, 1))
    starts[axis] = start
    steps[axis] = item.steps[axis] if count == 1 else 2
    shape = (*dims[:axis], count, *dims[axis + 1 :])
    return (item.dims, list(item.starts), list(item.steps)) == (shape, starts, steps)
