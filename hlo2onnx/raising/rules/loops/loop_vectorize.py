"""Work in a Loop that depends on no state is done for all trips at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.code_motion import is_repeatable
from hlo2onnx.ir.op_families import BROADCASTING
from hlo2onnx.ir.replace import remove_makers
from hlo2onnx.ir.traversal import nodes_in, subgraphs
from hlo2onnx.ir.values import dtype_of, origin, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import (
    Trips,
    counted,
    has_one_shape,
    rebuilt,
    replace_value,
    separate,
)
from hlo2onnx.raising.match.views import first, widens_row
from hlo2onnx.raising.vectorize.batching import Batcher, batchable, batched_body
from hlo2onnx.raising.vectorize.trip_rows import row_bytes

STACKED_BYTES = 1 << 22
"""The most that a loop may stack in addition to the program's stacks: a limit on memory, not a
cost."""

_PRODUCTS = frozenset({"MatMul"})
_PARTS = frozenset({"Slice", "Split"})


class LoopVectorize(Rule):
    """Loop(f(x[i])) -> y = f(x); Loop(y[i]); a stack of f(x[i]) -> y

    Legal if a value of the body depends only on the number of the trip and on values made before
    the loop, through operators that work on each row (elementwise ones, MatMul, reductions, moves,
    loops of these), for a known number of trips, not 0. A stack of such values is the batched
    value. So a loop without states (`lax.map`) vanishes, and random numbers of scanned keys are
    drawn before the loop.

    Values stay in the body if the batched value would take much memory, or if a trip would read
    more than it saves. Parts of one tensor stay too, Expands with readers that broadcast, and
    Casts of a constant's rows to a wider type.
    """

    name = "loop-vectorize"
    formerly = ("batch-scanned",)
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = counted(node)
        batcher = batched_body(b, trips)
        rows = batcher.rows
        whole = {k: _whole(b, trips, origin(row), rows) for k, row in enumerate(trips.rows)}
        cut = _cut(trips, rows, b.costs.trip_bytes)
        need(cut or any(whole.values()), "every value depends on a state", node)
        for value in cut:
            producer = value.producer()
            assert producer is not None
            with b.before(producer):
                types = [(dtype_of(value), shape_of(value))]
                row = b.op("Gather", rows[value], trips.number, axis=0, types=types)
            replace_value(value, row)
        old = trips.rows
        stacked = [row for k, row in enumerate(old) if whole[k] is None]
        final, stacks = rebuilt(b, trips, stacked)
        remove_makers(old, within=trips.body)  # stacked values may come from outside
        left = iter(stacks)
        batched = [whole[k] or next(left) for k in range(len(old))]
        pairs = zip(trips.stacks, batched, strict=True)
        return [*final, *(separate(b, stack, value) for stack, value in pairs)]


def _whole(
    b: Rewriter, trips: Trips, value: oir.Value, rows: dict[oir.Value, oir.Value]
) -> oir.Value | None:
    """The stack of a value, if it is known without the loop."""
    if value in rows:
        return rows[value]
    node = value.producer()
    if node is not None and not trips.is_outer(value):
        if not is_repeatable(node) or subgraphs(node) or not all(map(trips.is_outer, node.inputs)):
            return None
        value = b.copy_of(node)[node.outputs.index(value)]
    elif value in trips.body.inputs:
        return None
    return b.expand(b.unsqueeze(value, [0]), (trips.count, *shape_of(value)))


def _cut(trips: Trips, rows: dict[oir.Value, oir.Value], few_bytes: float) -> list[oir.Value]:
    """The values of the body to be read from batched ones instead of made in the body.

    Args:
        few_bytes: See `Costs.trip_bytes`.
    """
    made = [output for node in trips.body for output in node.outputs if output in rows]
    if not made:
        return []
    makings = _makings(trips, rows)
    ends = {trips.body.outputs[0], *trips.after}
    pending = [value for value in made if value in ends or _is_needed(value, rows)]
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
        if len(siblings) > 1 or not making.pays(value, few_bytes) or stays:
            opened |= siblings
            cut -= siblings
            more = [x for x in node.inputs if x is not None and x in makings]
            needed.update(more)
            pending += more
        elif making.is_long or trips.number not in node.inputs:
            cut.add(value)
    return [value for value in made if value in cut]


@dataclass(frozen=True)
class _Making:
    """How the body computes a batched value.

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


def _makings(trips: Trips, rows: dict[oir.Value, oir.Value]) -> dict[oir.Value, _Making]:
    """How the body computes each batched value."""
    makings: dict[oir.Value, _Making] = {}
    for node in nodes_in(trips.body):
        earlier = [makings[x] for x in node.inputs if x in makings]
        for output in node.outputs:
            if output in rows:
                makings[output] = _Making(
                    bool(earlier),
                    node.op_type in _PRODUCTS or any(one.has_product for one in earlier),
                    row_bytes(output)
                    if trips.reads_row(node)
                    else max((one.row_bytes for one in earlier), default=0),
                )
    return makings


def _is_needed(value: oir.Value, rows: dict[oir.Value, oir.Value]) -> bool:
    """Whether a node of the body that is not batched reads a value."""
    return any(x not in rows for reader in value.consumers() for x in reader.outputs)


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


class SinkStackedOutputs(Rule):
    """Loop stacking f(h) -> y = f(the stack of h)

    Legal if only a stack reads the result of f, f works on each row, and the number of trips is
    known and not 0. The values stacked instead must have the same shape in every trip, and must not
    be much larger.
    """

    name = "sink-stacked-outputs"
    formerly = ("postpone-stacked",)
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = counted(node)
        count = len(trips.rows)
        alone = [k for k, row in enumerate(trips.rows) if _is_for_a_stack(row)]
        groups = [range(count), *([k] for k in alone if count > 1)]
        need(alone, "other nodes of the body read the stacked values", node)
        scanned = batched_body(b, trips)
        for group in groups:
            results = self._postpone(b, trips, group, scanned.rows)
            if results is not None:
                return results
        raise Refusal("no stack can be computed after the loop", node)

    def _postpone(
        self, b: Rewriter, trips: Trips, group: Iterable[int], known: dict[oir.Value, oir.Value]
    ) -> list[oir.Value] | None:
        late = _late(b, trips, set(group), known)
        if not late:
            return None
        made = {output for node in late for output in node.outputs}
        stacked = {origin(row): k for k, row in enumerate(trips.rows)}
        read = [x for node in late for x in node.inputs if x is not None]
        leaves = list(dict.fromkeys(
            x for x in read if not (x in made or x in known or trips.is_outer(x))
        ))  # fmt: skip
        gone = [k for k, row in enumerate(trips.rows) if origin(row) in made]
        more = sum(row_bytes(x) for x in leaves if origin(x) not in stacked)
        less = sum(row_bytes(trips.rows[k]) for k in gone)
        if more > 2 * less and more * trips.count > STACKED_BYTES:
            return None
        return _split(b, trips, late, leaves, known)


def _late(
    b: Rewriter, trips: Trips, group: set[int], known: dict[oir.Value, oir.Value]
) -> list[oir.Node]:
    """The nodes that only stacks need and that work on each row, in order."""
    excluded = {node for value in known if (node := value.producer()) is not None}
    while True:
        late = _needed_late(trips, group, excluded)
        batcher = Batcher(b, trips, known)
        made = {output for node in late for output in node.outputs}
        for node in late:
            for x in node.inputs:
                if x is not None and x not in made and not trips.is_outer(x):
                    _add_stack(b, trips, batcher, x)
        unfit = [node for node in late if not _fits(b, trips, batcher, node)]
        if not unfit:
            return late if any(node.op_type != "Identity" for node in late) else []
        excluded.update(unfit)


def _fits(b: Rewriter, trips: Trips, batcher: Batcher, node: oir.Node) -> bool:
    """Whether a node works on rows; if not, its results could be stacked."""
    if batchable(batcher, node):
        return True
    for x in node.outputs:
        _add_stack(b, trips, batcher, x)
    return False


def _add_stack(b: Rewriter, trips: Trips, batcher: Batcher, x: oir.Value) -> None:
    """Adds a value that the loop could stack to the rows."""
    if x not in batcher.rows and has_one_shape(b, x):
        batcher.rows[x] = b.value("row", dtype_of(x), (trips.count, *shape_of(x)))


def _is_for_a_stack(row: oir.Value) -> bool:
    """Whether nothing but copies reads the producer of a row."""
    node = row.producer()
    while node is not None and not row.consumers():
        x = node.inputs[0] if node.inputs else None
        if node.op_type != "Identity" or x is None:
            return True
        if len(x.uses()) > 1 or x.is_graph_output():
            return False
        row, node = x, x.producer()
        if node is not None and node.op_type != "Identity":
            return True
    return False


def _needed_late(trips: Trips, group: set[int], excluded: set[oir.Node]) -> list[oir.Node]:
    body = trips.body
    first = 1 + len(trips.states)
    early = set(list(body.outputs)[:first])
    early.update(row for k, row in enumerate(trips.rows) if k not in group)
    stacked = {row for k, row in enumerate(trips.rows) if k in group}
    late: dict[oir.Node, None] = {}
    for node in reversed(list(body)):
        readers = [reader for output in node.outputs for reader in output.consumers()]
        is_read = bool(readers) or any(output in stacked for output in node.outputs)
        is_late = node not in excluded and not any(output in early for output in node.outputs)
        if is_read and is_late and all(reader in late for reader in readers):
            late[node] = None
    return list(reversed(late))


def _split(
    b: Rewriter,
    trips: Trips,
    late: Sequence[oir.Node],
    leaves: Sequence[oir.Value],
    known: dict[oir.Value, oir.Value],
) -> list[oir.Value]:
    """The loop without the late nodes, and the late nodes after it."""
    made = {output for node in late for output in node.outputs}
    old = trips.rows
    kept = [k for k, row in enumerate(old) if row not in made]
    stacked = [old[k] for k in kept]
    extra = [x for x in leaves if origin(x) not in map(origin, stacked)]
    final, stacks = rebuilt(b, trips, [*stacked, *extra])
    by_origin = {
        origin(value): stack for value, stack in zip([*stacked, *extra], stacks, strict=True)
    }
    batcher = Batcher(b, trips, known)
    batcher.rows.update((x, by_origin[origin(x)]) for x in leaves)
    for node in late:
        batcher.batch(node)
    rows = [stacks[kept.index(k)] if k in kept else batcher.rows[row] for k, row in enumerate(old)]
    results = [separate(b, stack, row) for stack, row in zip(trips.stacks, rows, strict=True)]
    remove_makers([row for row in old if row in made], within=trips.body)
    return [*final, *results]
