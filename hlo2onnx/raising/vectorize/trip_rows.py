"""The tensors of all trips of a Loop, with a row for each trip, for the values of its body."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as oir

from hlo2onnx.ir.values import Dim, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, need
from hlo2onnx.raising.match.counted_loop import Trips, has_one_shape

TOTAL_BYTES = 1 << 26
"""The size limit of a batched value: a limit on memory, not a cost."""

MOST_TRIPS = 1 << 16
"""The numbers of more trips are not stored: a limit on the model's size, not a cost."""

Rows = Mapping[oir.Value, oir.Value]
"""The tensor of all trips for values of the body."""


def row_bytes(value: oir.Value) -> int:
    """The bytes of a value, with unknown extents counted as 1."""
    extents = [dim for dim in shape_of(value) if isinstance(dim, int)]
    return math.prod(extents) * max(dtype_of(value).bitwidth // 8, 1)


class TripRows:
    """Batched values at the position of the rewriter, before or after a Loop.

    Args:
        b: Makes the nodes.
        trips: The Loop.
        rows: Those that are known, besides the trip number.
    """

    def __init__(self, b: Rewriter, trips: Trips, rows: Rows) -> None:
        self._b = b
        self._trips = trips
        self.rows = dict(rows)
        if trips.number.uses() and trips.count <= MOST_TRIPS:
            self.rows[trips.number] = b.i64(range(trips.count))

    def obstacle(self, node: oir.Node) -> str | None:
        """Why the operands of a node rule it out; None if they do not."""
        rows, changes = self.rows, False
        for x in node.inputs:
            if x in rows:
                changes = True
            elif not self._trips.is_outer(x):
                return "an operand depends on a state"
        return None if changes else "no operand changes from trip to trip"

    def _affordable(self, value: oir.Value) -> bool:
        size = row_bytes(value)
        most = self._b.costs.batched_row_bytes
        return size <= most and size * self._trips.count <= TOTAL_BYTES

    # -- operands -------------------------------------------------------------------------------

    def _scanned(self, node: oir.Node, *places: int) -> None:
        """Requires that only these operands change."""
        for place, x in enumerate(node.inputs):
            need(place in places or x not in self.rows, "another operand changes by trip", node)

    def _target(self, node: oir.Node) -> tuple[Dim, ...]:
        """The shape of the result for all trips, which must not depend on values."""
        need(has_one_shape(self._b, node.outputs[0]), "its shape depends on values", node)
        return self._dims(node.outputs[0])

    def _row(self, node: oir.Node, place: int = 0) -> tuple[oir.Value, int]:
        """The batched operand and the rank of one row."""
        x = node.inputs[place]
        assert x is not None
        need(x in self.rows, "the operand is the same in all trips", node)
        return self.rows[x], rank_of(x)

    def _aligned(self, x: oir.Value | None, rank: int) -> oir.Value | None:
        """The batched operand, its rows extended to this rank by leading axes of 1."""
        if x is None or x not in self.rows:
            return x
        missing = rank - rank_of(x)
        return self._b.unsqueeze(self.rows[x], range(1, 1 + missing))

    def _same(
        self, node: oir.Node, inputs: Sequence[oir.Value | None], **changed: Any
    ) -> list[oir.Value]:
        """The same operator on other operands, with a leading axis in its results."""
        types = [(dtype_of(x), self._dims(x)) for x in node.outputs]
        return self._b.copy_of(node, inputs, types, **changed)

    def _dims(self, value: oir.Value) -> tuple[Dim, ...]:
        return (self._trips.count, *shape_of(value))
