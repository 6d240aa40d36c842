"""What a body computes from the rows of tables is computed for all rows before the loop."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.traversal import nodes_in
from hlo2onnx.ir.values import (
    const_number,
    dtype_of,
    present,
    rank_of,
    shape_of,
    size_of,
    static_shape,
)
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.copies import is_speculatable, makers_within
from hlo2onnx.raising.match.counted_loop import Trips
from hlo2onnx.raising.match.lanes import keeps_lanes
from hlo2onnx.raising.match.views import RESHAPES, maker_of, operands, source_of
from hlo2onnx.raising.vectorize.batching import Batcher, batchable
from hlo2onnx.rewrite.large_graphs import replace_uses
from hlo2onnx.rewrite.replace import remove_makers

_FEWEST_SAVED = 8
"""Nodes that a trip must be spared: many loops make one trip or none."""


class RowTables(Rule):
    """Loop(f(x[i], y[i])) -> t = f(x, y); Loop(t[i])

    Legal for tensors from before the loop, if f consists of nodes that work on each row and do not
    fail on any numbers: rows that no trip reads are computed, too. i is one place, or one in each
    lane of x and y; then each lane of f depends on the same lane alone. Done for small tables, if a
    trip is spared many nodes, and two trips as many as the tables take. Searches of trees score the
    children of a node like this.
    """

    name = "row-tables"
    anchors = frozenset({"Loop"})
    # After random numbers have become tables by the number of the trip.
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = Trips(node, 0, node.attributes["body"].as_graph())
        groups: dict[Hashable, list[_Read]] = {}
        for each in nodes_in(trips.body):
            read = _read_of(b, trips, each)
            if read is not None:
                groups.setdefault(read.key, []).append(read)
        need(groups, "no row of a small table is read", node)
        for reads in groups.values():
            tables = _Tables(b, trips, reads)
            if tables.pay():
                tables.read()
                return b.copy_of(node)
        raise Refusal("little is computed from the rows", node)


@dataclass(frozen=True)
class _Read:
    """A node of a body that reads a row of a table, or one in each lane.

    Attributes:
        lanes: How many lanes there are; 0 for one place.
        rows: The extent of the axis that is read.
        place: What the place is computed from, and the bounds that it is held within.
    """

    node: oir.Node
    lanes: int
    rows: int
    place: Hashable

    @property
    def key(self) -> Hashable:
        """The same for reads of the same places."""
        return self.lanes, self.rows, self.place


def _read_of(b: Rewriter, trips: Trips, node: oir.Node) -> _Read | None:
    if node.op_type not in ("Gather", "GatherND", "GatherElements") or node.domain:
        return None
    table, index = operands(node)
    dims, size = static_shape(table), static_shape(index)
    if not dims or size is None or not trips.is_outer(table) or trips.is_outer(index):
        return None
    if not 0 < math.prod(dims) <= b.costs.hoisted_elements or index is trips.number:
        return None
    axis = node.attributes.get_int("axis", 0) % len(dims)
    if node.op_type == "Gather":
        return _Read(node, 0, dims[0], _place(index)) if axis == 0 and size == () else None
    in_lanes = len(dims) > 1 and size == (dims[0], 1)
    if node.op_type == "GatherND":
        fits = node.attributes.get_int("batch_dims", 0) == 1
    else:
        fits = axis == 1 and len(dims) == 2
    return _Read(node, dims[0], dims[1], _place(index)) if in_lanes and fits else None


def _place(index: oir.Value) -> Hashable:
    """A key that places have in common if they are equal: without Reshapes and widening Casts."""
    bounds = []
    while True:
        cast, clip = maker_of(index, "Cast"), maker_of(index, "Clip")
        if clip is not None:
            bounds.append((const_number(clip.inputs[1]), const_number(clip.inputs[2])))
            if None in bounds[-1]:
                return index
            index = operands(clip)[0]
        elif cast is not None and dtype_of(operands(cast)[0]) == oir.DataType.INT32:
            if dtype_of(index) != oir.DataType.INT64:
                return index, *bounds
            index = operands(cast)[0]
        elif (source := source_of(index, "Identity", *RESHAPES)) is not None:
            index = source
        else:
            return index, *bounds


class _Tables:
    """What a body computes from the rows that some nodes read, for all rows.

    Attributes:
        cut: The values of the body that are worth reading from tables.
    """

    def __init__(self, b: Rewriter, trips: Trips, reads: Sequence[_Read]) -> None:
        self._b, self._trips, self._reads = b, trips, reads
        self._lanes, self._count = reads[0].lanes, reads[0].rows
        nothing = Trips(trips.loop, self._count, oir.Graph([], [], nodes=[]))
        rows = {read.node.outputs[0]: self._rows(read) for read in reads}
        self._batcher = Batcher(b, nothing, rows, is_numbered=False)
        self._first = set(rows)
        for node in nodes_in(trips.body):
            self._batch(node)
        self.cut = self._worth_reading()

    def pay(self) -> bool:
        """Whether few trips are spared more nodes than the tables take."""
        saved = len(self._freed(self.cut)) - len(self.cut)
        made = makers_within(self._trips.body, self.cut)
        made = [node for node in made if node.outputs[0] in self._batcher.rows]
        moves = len(self._reads) + len(self.cut) if self._lanes else 0
        return saved >= _FEWEST_SAVED and 2 * saved > len(made) - len(self._reads) + moves

    def read(self) -> None:
        """Makes the body read the tables."""
        b, body = self._b, self._trips.body
        for value, index in [(x, self._index(x)) for x in self.cut]:
            table, maker = self._batcher.rows[value], value.producer()
            types = [(dtype_of(value), shape_of(value))]
            if self._lanes:
                table = self._exchanged(table)
            assert maker is not None
            with b.before(maker):
                if self._lanes:
                    index = b.cast(index, oir.DataType.INT64)
                    row = b.op("GatherND", table, index, batch_dims=1, types=types)
                else:
                    row = b.op("Gather", table, index, axis=0, types=types)
            replace_uses(value, row)
        remove_makers(self.cut, within=body)

    def _index(self, value: oir.Value) -> oir.Value:
        """The place that is known where the body computes a value."""
        makers = set(makers_within(self._trips.body, [value]))
        return next(operands(read.node)[1] for read in self._reads if read.node in makers)

    # -- tables ---------------------------------------------------------------------------------

    def _rows(self, read: _Read) -> oir.Value:
        """A table with the axis of its rows in front, each of them shaped as what is read."""
        table = operands(read.node)[0]
        if not read.lanes:
            return table
        dims = (read.rows, *shape_of(read.node.outputs[0]))
        return self._b.reshape(self._exchanged(table), dims)

    def _exchanged(self, table: oir.Value) -> oir.Value:
        """A table with its first two axes exchanged."""
        return self._b.transpose(table, [1, 0, *range(2, rank_of(table))])

    def _batch(self, node: oir.Node) -> None:
        """Adds the results of a node to the tables, if all rows can be computed."""
        rows = self._batcher.rows
        if rows.keys().isdisjoint(node.inputs):  # as of most nodes
            return
        if not all(x in rows or self._trips.is_outer(x) for x in present(node.inputs)):
            return
        sizes = [size_of(x) for x in node.outputs]
        most = self._b.costs.hoisted_elements
        is_small = all(size is not None and size * self._count <= most for size in sizes)
        is_apart = not self._lanes or keeps_lanes(node, rows, self._lanes)
        if is_small and is_apart and is_speculatable(node):
            batchable(self._batcher, node)

    # -- what is worth a table ------------------------------------------------------------------

    def _worth_reading(self) -> list[oir.Value]:
        """The values that take more nodes to compute than to read."""
        rows = self._batcher.rows
        made = [x for node in nodes_in(self._trips.body) for x in node.outputs if x in rows]
        cut = [x for x in made if x not in self._first and self._is_read(x)]
        while cut:
            whole = len(self._freed(cut))
            gains = [whole - len(self._freed([y for y in cut if y is not x])) for x in cut]
            if min(gains) > 1:
                break
            cut.pop(gains.index(min(gains)))
        return cut

    def _is_read(self, x: oir.Value) -> bool:
        rows = self._batcher.rows
        readers = (y for reader in x.consumers() for y in reader.outputs)
        return x.is_graph_output() or any(y not in rows for y in readers)

    def _freed(self, cut: Collection[oir.Value]) -> set[oir.Node]:
        """The nodes that the body does not need if it reads these values from tables."""
        rows, freed = self._batcher.rows, set[oir.Node]()
        for node in reversed(nodes_in(self._trips.body)):
            if all(x in rows for x in node.outputs) and all(
                x in cut or (not x.is_graph_output() and freed.issuperset(x.consumers()))
                for x in node.outputs
            ):
                freed.add(node)
        return freed
