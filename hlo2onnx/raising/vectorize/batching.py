"""Nodes of a Loop's body computed for all trips at once, on tensors with one row for each trip."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.notes import STACKED, hold_trip
from hlo2onnx.ir.op_families import BROADCASTING, REDUCTIONS, RESHAPES, UNARY
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.threefry import THREEFRY
from hlo2onnx.ir.values import (
    const_ints,
    dtype_of,
    rank_of,
    shape_of,
)
from hlo2onnx.raising.engine import Refusal, need, needed
from hlo2onnx.raising.match.views import operands
from hlo2onnx.raising.vectorize.trip_rows import TripRows

_AXIS = frozenset(
    {"ArgMax", "ArgMin", "Concat", "Hardmax", "LayerNormalization", "LogSoftmax",
     "RMSNormalization", "Softmax", "Split"}
)  # fmt: skip
"""Operators with an attribute for the axis, which may be negative."""

_WITH_BATCH = frozenset(
    {"AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalMaxPool", "LpPool",
     "MaxPool"}
)  # fmt: skip


class Batcher(TripRows):
    """Makes batched values at the position of the rewriter, before or after a Loop."""

    def batch(self, node: oir.Node) -> None:
        """Adds the node's results to the rows.

        Raises:
            Refusal: An operand is neither batched nor made before the loop, or the operator does
                not work on rows.
        """
        obstacle = self.obstacle(node)
        need(obstacle is None, obstacle or "", node)
        need(not node.domain, "it is not a standard operator", node)
        make = needed(_MAKERS.get(node.op_type), f"{node.op_type} does not work on rows", node)
        for output in node.outputs:
            need(self._affordable(output), "it would take too much memory", node)
        values = make(self, node)
        for output, value in zip(node.outputs, values, strict=True):
            self.rows[output] = value
            hold_trip(self._trips.number, STACKED, output, value)

    # -- operators ------------------------------------------------------------------------------

    def elementwise(self, node: oir.Node) -> list[oir.Value]:
        """Add(x, y): rows of x are aligned with rows of y, or with y itself."""
        rank = max(rank_of(x) for x in node.inputs if x is not None)
        return self._same(node, [self._aligned(x, rank) for x in node.inputs])

    def clip(self, node: oir.Node) -> list[oir.Value]:
        """Clip(x, low, high) of rows."""
        self._scanned(node, 0)
        return self._same(node, [self._row(node)[0], *node.inputs[1:]])

    def product(self, node: oir.Node) -> list[oir.Value]:
        """MatMul(x, w): one product for all trips if w is a matrix from before the loop."""
        left, right = operands(node)
        ranks = (rank_of(left), rank_of(right))
        if 1 in ranks:
            need(ranks == (1, 2) and right not in self.rows, "an operand is a vector", node)
            return self._same(node, [self.rows[left], right])
        rank = max(ranks)
        return self._same(node, [self._aligned(left, rank), self._aligned(right, rank)])

    def reshape(self, node: oir.Node) -> list[oir.Value]:
        """Reshape, Squeeze, Unsqueeze: the trips stay in front."""
        self._scanned(node, 0)
        return [self._b.reshape(self._row(node)[0], self._target(node))]

    def expand(self, node: oir.Node) -> list[oir.Value]:
        """Expand(x, shape): the trips stay in front."""
        self._scanned(node, 0)
        x = self._aligned(node.inputs[0], rank_of(node.outputs[0]))
        assert x is not None
        return [self._b.expand(x, self._target(node))]

    def transpose(self, node: oir.Node) -> list[oir.Value]:
        """Transpose of the axes after."""
        perm = node.attributes["perm"].as_ints()
        return [self._b.transpose(self._row(node)[0], [0, *(axis + 1 for axis in perm)])]

    def along_axis(self, node: oir.Node) -> list[oir.Value]:
        """Softmax, Split and so on along the next axis; Concat of rows with other rows."""
        x, rank = self._row(node) if node.op_type != "Concat" else (None, rank_of(node.outputs[0]))
        default = 0 if node.op_type in ("ArgMax", "ArgMin", "Split") else -1
        axis = node.attributes.get_int("axis", default) % rank + 1
        if x is None:
            return self._same(node, [self._whole(part) for part in node.inputs], axis=axis)
        self._scanned(node, 0)
        return self._same(node, [x, *node.inputs[1:]], axis=axis)

    def _whole(self, x: oir.Value | None) -> oir.Value:
        """An operand of a Concat for all trips, repeated if it is the same in all."""
        assert x is not None
        if x in self.rows:
            return self.rows[x]
        return self._b.expand(self._b.unsqueeze(x, [0]), self._dims(x))

    def reduction(self, node: oir.Node) -> list[oir.Value]:
        """ReduceSum and so on over the axes after."""
        self._scanned(node, 0)
        x, rank = self._row(node)
        given = node.inputs[1] if len(node.inputs) > 1 else None
        need(not node.attributes.get_int("noop_with_empty_axes", 0), "it may reduce nothing", node)
        axes = range(rank) if given is None else const_ints(given)
        need(axes, "its axes are not known, or there are none", node)
        assert axes is not None
        return self._same(node, [x, self._b.i64([axis % rank + 1 for axis in axes])])

    def slice(self, node: oir.Node) -> list[oir.Value]:
        """Slice of the axes after."""
        self._scanned(node, 0)
        x, rank = self._row(node)
        starts, ends = node.inputs[1:3]
        axes, steps = node.inputs[3] if len(node.inputs) > 3 else None, node.inputs[4:]
        known = needed(
            const_ints(axes) if axes is not None else tuple(range(rank)),
            "its axes are not known",
            node,
        )
        moved = self._b.axes_beside(starts, [axis % rank + 1 for axis in known])
        return self._same(node, [x, starts, ends, moved, *steps])

    def gather(self, node: oir.Node) -> list[oir.Value]:
        """Gather(row, i) along the axis after; Gather(x, row of indices) along the first."""
        data, index = node.inputs
        axis = node.attributes.get_int("axis", 0)
        assert data is not None and index is not None
        if index not in self.rows:
            x, rank = self._row(node)
            return self._same(node, [x, index], axis=axis % rank + 1)
        self._scanned(node, 1)
        need(axis == 0, "it does not gather along the first axis", node)
        return [self._taken(node, data, self.rows[index])]

    def _taken(self, node: oir.Node, data: oir.Value, index: oir.Value) -> oir.Value:
        """data[index], as a Slice if the rows are consecutive."""
        known = self._b.facts.elements(index)
        if known is not None and known.ndim == 1 and known.min() >= 0:
            steps = set(np.diff(known).tolist())
            first, last = int(known[0]), int(known[-1])
            if steps <= {1}:
                return self._b.slice(data, [first], [last + 1], axes=[0])
            if steps == {-1}:
                end = last - 1 if last else INT64_MIN
                return self._b.slice(data, [first], [end], [-1], [0])
        return self._same(node, [data, index])[0]

    def pad(self, node: oir.Node) -> list[oir.Value]:
        """Pad of the axes after."""
        self._scanned(node, 0)
        x, rank = self._row(node)
        pads = _known(node)
        need(len(node.inputs) < 4, "it pads some of the axes", node)
        more = self._b.i64([0, *pads[:rank], 0, *pads[rank:]])
        return self._same(node, [x, more, *node.inputs[2:]])

    def merged(self, node: oir.Node) -> list[oir.Value]:
        """Conv and pooling, which have a batch axis: the trips join it."""
        self._scanned(node, 0)
        need(len(node.outputs) == 1, "it also returns indices", node)
        x, _ = self._row(node)
        (count, first, *rest), (_, *made) = shape_of(x), shape_of(node.outputs[0])
        need(isinstance(first, int), "its batch is symbolic", node)
        assert isinstance(first, int) and isinstance(count, int)
        joined = self._b.reshape(x, (count * first, *rest))
        types = [(dtype_of(node.outputs[0]), (count * first, *made))]
        value = self._b.like(node, [joined, *node.inputs[1:]], types)
        return [self._b.reshape(value, (count, first, *made))]

    def running(self, node: oir.Node) -> list[oir.Value]:
        """CumSum; its axis is an operand."""
        self._scanned(node, 0)
        x, rank = self._row(node)
        (axis,) = _known(node)
        return self._same(node, [x, self._b.i64(axis % rank + 1)])


def _known(node: oir.Node) -> tuple[int, ...]:
    """The integers that are a node's second operand.

    Raises:
        Refusal: They are computed at run time.
    """
    return needed(const_ints(node.inputs[1]), "its second operand is not known", node)


_MAKERS: dict[str, Callable[[Batcher, oir.Node], list[oir.Value]]] = {
    **dict.fromkeys(UNARY | BROADCASTING | {"Identity", THREEFRY}, Batcher.elementwise),
    **dict.fromkeys(_AXIS, Batcher.along_axis),
    **dict.fromkeys(REDUCTIONS, Batcher.reduction),
    **dict.fromkeys(_WITH_BATCH, Batcher.merged),
    **dict.fromkeys(RESHAPES, Batcher.reshape),
    "Clip": Batcher.clip,
    "CumSum": Batcher.running,
    "Expand": Batcher.expand,
    "Gather": Batcher.gather,
    "MatMul": Batcher.product,
    "Pad": Batcher.pad,
    "Slice": Batcher.slice,
    "Transpose": Batcher.transpose,
}


def batchable(b: Batcher, node: oir.Node) -> bool:
    """Tries to add the node's results to the rows; returns whether it could."""
    is_apart = b.rows.keys().isdisjoint(node.inputs)
    if is_apart or b.obstacle(node) is not None:  # as for most nodes of a body
        return False
    try:
        b.batch(node)
    except Refusal:
        return False
    return True
