"""Work of a Loop's body that no state takes part in is done for all trips at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.op_families import BROADCASTING
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import attributes_of, dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import (
    Trips,
    counted,
    has_one_shape,
    origin,
    rebuilt,
    replace_value,
    separate,
)
from hlo2onnx.raising.vectorize.batching import Batcher, batchable, row_bytes
from hlo2onnx.rewrite.licm import is_repeatable
from hlo2onnx.rewrite.replace import remove_makers

STACKED_BYTES = 1 << 22
"""What a loop may stack beyond what the program does: a limit on memory, no cost."""

_PRODUCTS = frozenset({"MatMul"})
_PARTS = frozenset({"Slice", "Split"})


class LoopVectorize(Rule):
    """Loop(f(x[i])) -> y = f(x); Loop(y[i]); what is stacked of it -> y itself

    Legal where a value of the body follows from the number of the trip and from values made before
    the loop, by operators that work on each row apart (elementwise ones, MatMul, reductions,
    moves, loops of these) and for a number of trips that is known and not 0. A stack of such values
    is the batched value, so that nothing is left of a loop that carries nothing (`lax.map`), and
    random numbers are drawn beforehand where the keys are scanned. Values stay in the
    body where the batched one would take much memory, or where a trip would read more than it
    saves; so do the parts of one tensor, which are taken where they are needed, and what operators
    that broadcast by themselves read expanded.
    """

    name = "loop-vectorize"
    formerly = ("batch-scanned",)
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = counted(node)
        batcher = Batcher(b, trips, {})
        for inner in trips.body:
            batchable(batcher, inner)
        rows = batcher.rows
        whole = {k: _whole(b, trips, origin(row), rows) for k, row in enumerate(trips.rows)}
        cut = _cut(trips, rows, b.costs.trip_bytes)
        need(cut or any(whole.values()), "every value follows from a state", node)
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
        remove_makers(old, within=trips.body)  # what is stacked may be made outside of it
        left = iter(stacks)
        batched = [whole[k] or next(left) for k in range(len(old))]
        pairs = zip(trips.stacks, batched, strict=True)
        return [*final, *(separate(b, stack, value) for stack, value in pairs)]


def _whole(
    b: Rewriter, trips: Trips, value: oir.Value, rows: dict[oir.Value, oir.Value]
) -> oir.Value | None:
    """The stack of a value, when it is known without the loop."""
    if value in rows:
        return rows[value]
    node = value.producer()
    if node is not None and not trips.is_outer(value):
        if not is_repeatable(node) or subgraphs(node) or not all(map(trips.is_outer, node.inputs)):
            return None
        types = [(dtype_of(x), shape_of(x)) for x in node.outputs]
        value = b.node(node.op_type, node.inputs, attributes_of(node), types)[
            node.outputs.index(value)
        ]
    elif value in trips.body.inputs:
        return None
    return b.expand(b.unsqueeze(value, [0]), (trips.count, *shape_of(value)))


def _cut(trips: Trips, rows: dict[oir.Value, oir.Value], few_bytes: float) -> list[oir.Value]:
    """The values of the body to be read from batched ones instead of made in the body.

    Args:
        few_bytes: See `Costs.trip_bytes`.
    """
    made = [output for node in trips.body for output in node.outputs if output in rows]
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
        if len(siblings) > 1 or not making.pays(value, few_bytes) or _is_broadcast(trips, value):
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
    """How a batched value is made in the body.

    Attributes:
        is_long: More than one node makes it.
        has_product: A product of matrices is among them.
        row_bytes: The largest row that it follows from.
    """

    is_long: bool
    has_product: bool
    row_bytes: int

    def pays(self, value: oir.Value, few_bytes: float) -> bool:
        """Whether reading a row is no more work than making it."""
        return self.has_product or row_bytes(value) <= max(few_bytes, self.row_bytes)


def _makings(trips: Trips, rows: dict[oir.Value, oir.Value]) -> dict[oir.Value, _Making]:
    """How each batched value of the body is made."""
    makings: dict[oir.Value, _Making] = {}
    for node in trips.body:
        earlier = [makings[x] for x in node.inputs if x in makings]
        for output in node.outputs:
            if output in rows:
                is_row = _is_row(trips, output)
                makings[output] = _Making(
                    bool(earlier),
                    node.op_type in _PRODUCTS or any(one.has_product for one in earlier),
                    max((one.row_bytes for one in earlier), default=0)
                    if not is_row
                    else row_bytes(output),
                )
    return makings


def _is_needed(value: oir.Value, rows: dict[oir.Value, oir.Value]) -> bool:
    """Whether the body reads a value for something that is not batched."""
    return any(x not in rows for reader in value.consumers() for x in reader.outputs)


def _is_row(trips: Trips, value: oir.Value) -> bool:
    """Whether it is a row of a tensor from before the loop, the one of this trip."""
    node = value.producer()
    if node is None or node.op_type != "Gather" or not trips.is_outer(node.inputs[0]):
        return False
    return node.inputs[1] is trips.number and node.attributes.get_int("axis", 0) == 0


def _is_broadcast(trips: Trips, value: oir.Value) -> bool:
    """Whether it is expanded for operators of the body that broadcast by themselves."""
    node = value.producer()
    return (
        node is not None
        and node.op_type == "Expand"
        and trips.is_outer(node.inputs[1])
        and not value.is_graph_output()
        and all(reader.op_type in BROADCASTING for reader in value.consumers())
    )


def _part_of(value: oir.Value) -> oir.Value | None:
    node = value.producer()
    return node.inputs[0] if node is not None and node.op_type in _PARTS else None


class SinkStackedOutputs(Rule):
    """Loop stacking f(h) -> y = f(the stack of h)

    Legal where nothing but a stack reads what f makes, by operators that work on each row apart,
    for a number of trips that is known and not 0. What has to be stacked instead must have the same
    shape in every trip and must not be much larger than what was.
    """

    name = "sink-stacked-outputs"
    formerly = ("postpone-stacked",)
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = counted(node)
        count = len(trips.rows)
        alone = [k for k, row in enumerate(trips.rows) if _is_for_a_stack(row)]
        groups = [range(count), *([k] for k in alone if count > 1)]
        need(alone, "the loop reads what it stacks", node)
        scanned = Batcher(b, trips, {})
        for inner in trips.body:
            batchable(scanned, inner)
        for group in groups:
            results = self._postpone(b, trips, group, scanned.rows)
            if results is not None:
                return results
        raise Refusal("every stack holds states", node)

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
    """The nodes that are needed for stacks only and work on each row apart, in their order."""
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
    """Whether a node is done by rows; if not, what it makes could be stacked."""
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
    """Whether nothing else reads what makes a row, copies apart."""
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
    """The loop without what is late, and what is late after it."""
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
