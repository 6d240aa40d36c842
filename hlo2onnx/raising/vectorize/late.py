"""Late values: those that only stacks need, computed after the loop for all trips."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as oir

from hlo2onnx.ir.replace import remove_makers
from hlo2onnx.ir.traversal import nodes_in
from hlo2onnx.ir.values import dtype_of, origin, shape_of
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.match.counted_loop import Trips, has_one_shape, rebuilt, separate
from hlo2onnx.raising.vectorize.batching import Batcher, batchable
from hlo2onnx.raising.vectorize.trip_rows import Rows, row_bytes

STACKED_BYTES = 1 << 22
"""The most that a loop may stack in addition to the program's stacks: a limit on memory, not a
cost."""


def late_values(b: Rewriter, trips: Trips, known: Rows) -> list[oir.Value] | None:
    """The results of the Loop without late values; None if there are none.

    The values stacked instead must have the same shape in every trip, and must not be much larger.

    Args:
        known: The early values.
    """
    late = _late(b, trips, known)
    if not late:
        return None
    made = {output for node in late for output in node.outputs}
    read = [x for node in late for x in node.inputs if x is not None]
    leaves = list(dict.fromkeys(
        x for x in read if not (x in made or x in known or trips.is_outer(x))
    ))  # fmt: skip
    old = trips.rows
    kept = [k for k, row in enumerate(old) if row not in made]
    stacked = [old[k] for k in kept]
    before = set(map(origin, stacked))
    more = sum(row_bytes(x) for x in leaves if origin(x) not in set(map(origin, old)))
    less = sum(row_bytes(row) for row in old if origin(row) in made)
    if more > 2 * less and more * trips.count > STACKED_BYTES:
        return None
    extra = [x for x in leaves if origin(x) not in before]
    final, stacks = rebuilt(b, trips, [*stacked, *extra])
    by_origin = dict(zip(map(origin, [*stacked, *extra]), stacks, strict=True))
    batcher = Batcher(b, trips, known)
    batcher.rows.update((x, by_origin[origin(x)]) for x in leaves)
    for node in late:
        batcher.batch(node)
    rows = [stacks[kept.index(k)] if k in kept else batcher.rows[row] for k, row in enumerate(old)]
    results = [separate(b, stack, row) for stack, row in zip(trips.stacks, rows, strict=True)]
    remove_makers([row for row in old if row in made], within=trips.body)
    return [*final, *results]


def _late(b: Rewriter, trips: Trips, known: Rows) -> list[oir.Node]:
    """The nodes that only stacks need and that work on each row, in order."""
    excluded = {node for value in known if (node := value.producer()) is not None}
    while True:
        late = _only_for_stacks(trips, excluded)
        if not late:
            return []
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


def _only_for_stacks(trips: Trips, excluded: Collection[oir.Node]) -> list[oir.Node]:
    """The nodes that no state and no excluded node depends on, in order."""
    early, stacked = set(list(trips.body.outputs)[: 1 + len(trips.states)]), set(trips.rows)
    late: dict[oir.Node, None] = {}
    for node in reversed(nodes_in(trips.body)) if stacked else ():
        readers = [reader for output in node.outputs for reader in output.consumers()]
        is_read = bool(readers) or any(output in stacked for output in node.outputs)
        is_late = node not in excluded and early.isdisjoint(node.outputs)
        if is_read and is_late and all(reader in late for reader in readers):
            late[node] = None
    return list(reversed(late))
