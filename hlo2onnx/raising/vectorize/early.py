"""Early values: those that follow from the trip number, computed before the loop for all trips."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.code_motion import is_repeatable
from hlo2onnx.ir.op_families import BROADCASTING
from hlo2onnx.ir.replace import remove_makers
from hlo2onnx.ir.threefry import THREEFRY, WRITTEN_NODES
from hlo2onnx.ir.traversal import nodes_in, subgraphs
from hlo2onnx.ir.values import INTEGERS, dtype_of, origin, shape_of
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.match.counted_loop import (
    Trips,
    rebuilt,
    replace_value,
    separate,
)
from hlo2onnx.raising.match.trip_bounds import counts_up
from hlo2onnx.raising.match.views import first, widens_row
from hlo2onnx.raising.vectorize.batching import Batcher, batchable
from hlo2onnx.raising.vectorize.trip_rows import MOST_TRIPS, row_bytes

_PRODUCTS = frozenset({"MatMul"})
_PARTS = frozenset({"Slice", "Split"})

Values = dict[oir.Value, oir.Value]


def weight(node: oir.Node) -> int:
    """How many nodes it becomes, or runs once."""
    if node.op_type == THREEFRY:
        return WRITTEN_NODES
    return max(1, sum(len(graph) for graph in subgraphs(node)))


def early_values(b: Rewriter, trips: Trips) -> Early:
    """The values of a body that depend on no state but counters."""
    batcher = Batcher(b, trips, _counters(b, trips))
    for node in nodes_in(trips.body):
        batchable(batcher, node)
    return Early(b, trips, batcher.rows)


def _counters(b: Rewriter, trips: Trips) -> Values:
    """The states that count trips, in each trip. Floats would round in each trip."""
    states = zip(trips.states, trips.after, trips.initial, strict=True)
    return {
        state: b.Add(start, b.const(np.arange(trips.count).astype(dtype_of(state).numpy())))
        for state, after, start in states
        if dtype_of(state) in INTEGERS
        and dtype_of(state).bitwidth >= 8
        and shape_of(state) == ()
        and trips.count <= MOST_TRIPS
        and counts_up(state, origin(after))
    }


class Early:
    """The early values of a body.

    Attributes:
        rows: The tensor of all trips for each of them.
    """

    def __init__(self, b: Rewriter, trips: Trips, rows: Values) -> None:
        self._b, self._trips, self.rows = b, trips, rows

    def moved(self) -> list[oir.Value] | None:
        """The results of the Loop that reads rows of early values; None if reading none is cheaper
        than computing it.

        Values stay in the body if the tensor of all trips would take much memory, or if a trip
        would read more than it saves. Parts of one tensor stay too, Expands with readers that
        broadcast, and Casts of a constant's rows to a wider type.
        """
        b, trips = self._b, self._trips
        whole = {k: self._whole(origin(row)) for k, row in enumerate(trips.rows)}
        cut = self._cut()
        if not cut and not any(whole.values()):
            return None
        for value in cut:
            producer = value.producer()
            assert producer is not None
            with b.before(producer):
                replace_value(value, row_of(b, trips, value, self.rows[value]))
        old = trips.rows
        final, stacks = rebuilt(b, trips, [row for k, row in enumerate(old) if whole[k] is None])
        remove_makers(old, within=trips.body)  # stacked values may come from outside
        left = iter(stacks)
        batched = [whole[k] or next(left) for k in range(len(old))]
        pairs = zip(trips.stacks, batched, strict=True)
        return [*final, *(separate(b, stack, value) for stack, value in pairs)]

    def _whole(self, value: oir.Value) -> oir.Value | None:
        """The stack of a value, if it is known without the loop."""
        b, trips = self._b, self._trips
        if value in self.rows:
            return self.rows[value]
        node = value.producer()
        if node is not None and not trips.is_outer(value):
            fixed = is_repeatable(node) and not subgraphs(node)
            if not fixed or not all(map(trips.is_outer, node.inputs)):
                return None
            value = b.copy_of(node)[node.outputs.index(value)]
        elif value in trips.body.inputs:
            return None
        return b.expand(b.unsqueeze(value, [0]), (trips.count, *shape_of(value)))

    def _cut(self) -> list[oir.Value]:
        """The values of the body to be read from tensors instead of made in the body."""
        trips, rows = self._trips, self.rows
        made = [x for node in nodes_in(trips.body) for x in node.outputs if x in rows]
        if not made:
            return []
        makings = self._makings()
        ends = {trips.body.outputs[0], *trips.after}
        pending = [value for value in made if value in ends or self._is_needed(value)]
        parts: dict[oir.Value, list[oir.Value]] = {}
        for value in made:
            if (whole := _part_of(value)) is not None:
                parts.setdefault(whole, []).append(value)
        needed, cut, opened = set(pending), set[oir.Value](), set[oir.Value]()
        while pending:
            value = pending.pop()
            if value in cut or value in opened:
                continue
            node, making = value.producer(), makings[value]
            assert node is not None
            whole = _part_of(value)
            siblings = {x for x in parts.get(whole, ()) if x in needed} if whole else {value}
            stays = _is_broadcast(trips, value) or _is_widened(trips, value)
            if len(siblings) > 1 or not making.pays(value, self._b.costs.trip_bytes) or stays:
                opened |= siblings
                cut -= siblings
                more = [x for x in node.inputs if x is not None and x in makings]
                needed.update(more)
                pending += more
            elif making.is_long or trips.number not in node.inputs:
                cut.add(value)
        return [value for value in made if value in cut]

    def _makings(self) -> dict[oir.Value, _Making]:
        """How the body computes each early value."""
        makings: dict[oir.Value, _Making] = {}
        for node in nodes_in(self._trips.body):
            earlier = [makings[x] for x in node.inputs if x in makings]
            for output in node.outputs:
                if output in self.rows:
                    makings[output] = _Making(
                        bool(earlier),
                        node.op_type in _PRODUCTS or any(one.has_product for one in earlier),
                        row_bytes(output)
                        if self._trips.reads_row(node)
                        else max((one.row_bytes for one in earlier), default=0),
                    )
        return makings

    def _is_needed(self, value: oir.Value) -> bool:
        """Whether a node of the body that stays reads a value."""
        return any(x not in self.rows for reader in value.consumers() for x in reader.outputs)


@dataclass(frozen=True)
class _Making:
    """How the body computes an early value.

    Attributes:
        is_long: More than one node computes it.
        has_product: A product of matrices is among them.
        row_bytes: The largest row that it depends on.
    """

    is_long: bool
    has_product: bool
    row_bytes: int

    def pays(self, value: oir.Value, few_bytes: float) -> bool:
        """Whether reading a row takes no more work than computing it."""
        return self.has_product or row_bytes(value) <= max(few_bytes, self.row_bytes)


def row_of(b: Rewriter, trips: Trips, value: oir.Value, whole: oir.Value) -> oir.Value:
    """This trip's row of the tensor of all trips, in place of a value."""
    types = [(dtype_of(value), shape_of(value))]
    row: oir.Value = b.op("Gather", whole, trips.number, axis=0, types=types)
    return row


def _is_broadcast(trips: Trips, value: oir.Value) -> bool:
    """Whether a value is an Expand for operators of the body that broadcast by themselves."""
    node = value.producer()
    return (
        node is not None
        and node.op_type == "Expand"
        and trips.is_outer(node.inputs[1])
        and not value.is_graph_output()
        and all(reader.op_type in BROADCASTING for reader in value.consumers())
    )


def _is_widened(trips: Trips, value: oir.Value) -> bool:
    """Whether a value is a row of a constant in a wider type."""
    node = value.producer()
    read = node.inputs[0].producer() if node is not None and node.inputs[0] is not None else None
    if node is None or read is None or not trips.reads_row(read):
        return False
    return widens_row(node, first(read), read.outputs[0])


def _part_of(value: oir.Value) -> oir.Value | None:
    node = value.producer()
    return node.inputs[0] if node is not None and node.op_type in _PARTS else None
