"""States of a Loop that depend only on themselves, in a loop of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.replace import remove_unused
from hlo2onnx.ir.traversal import nodes_in, reads, replace_uses
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.match.copies import copied, makers_within
from hlo2onnx.raising.match.counted_loop import Trips, has_one_shape, rebuilt, separate
from hlo2onnx.raising.vectorize.batching import Batcher, batchable
from hlo2onnx.raising.vectorize.early import row_of, weight
from hlo2onnx.raising.vectorize.trip_rows import Rows, row_bytes


def chain_apart(b: Rewriter, trips: Trips, known: Rows) -> list[oir.Value] | None:
    """The results of two Loops, of which the first one has a chain of states and stacks them; None
    if there is no chain, or if it would make few nodes of the other loop early.

    A chain is small, and its states have the same shape in every trip. More nodes are then early
    than both loops compute.

    Args:
        known: The early values.
    """
    if len(trips.states) < 2:
        return None
    costs, read = b.costs, _states_read(trips)
    following: dict[int, list[oir.Node]] = {}
    for chain, mask in _chains(trips, read):
        states = [trips.states[k] for k in chain]
        size = sum(map(row_bytes, states))
        if size > costs.trip_bytes or size * trips.count > costs.cached_bytes:
            continue
        if not all(has_one_shape(b, x) for x in states):
            continue
        following = following or _by_first_state(trips, read)
        own = set(makers_within(trips.body, [trips.after[k] for k in chain]))
        depends = [
            node
            for k in chain
            for node in following.get(1 << k, ())
            if not read[node.outputs[0]] & ~mask and node not in own
        ]
        if sum(map(weight, depends)) < costs.fission_nodes:
            continue
        early = _early_with(b, trips, states, known)
        others = [x for k, x in enumerate(trips.after) if k not in chain]
        twice = own.intersection(makers_within(trips.body, [*others, *trips.rows])) - early
        least = costs.fission_nodes + sum(map(weight, twice))
        if sum(weight(node) for node in depends if node in early) >= least:
            return _separated(b, trips, chain)
    return None


def _states_read(trips: Trips) -> dict[oir.Value, int]:
    """The states that each value of the body depends on, as bits."""
    read = {state: 1 << k for k, state in enumerate(trips.states)}
    for node in nodes_in(trips.body):
        mask = 0
        for x in reads(node) if node.attributes.data else node.inputs:
            if x is not None and x in read:
                mask |= read[x]
        read.update(dict.fromkeys(node.outputs, mask))
    return read


def _by_first_state(trips: Trips, read: Mapping[oir.Value, int]) -> dict[int, list[oir.Node]]:
    """The nodes by the first state that they depend on, as a bit."""
    following: dict[int, list[oir.Node]] = {}
    for node in nodes_in(trips.body):
        if mask := read[node.outputs[0]]:
            following.setdefault(mask & -mask, []).append(node)
    return following


def _chains(trips: Trips, read: Mapping[oir.Value, int]) -> Iterator[tuple[list[int], int]]:
    """Positions of states that depend only on each other, but not on all states; as bits, too."""
    count = len(trips.states)
    closed = [read.get(x, 0) | 1 << k for k, x in enumerate(trips.after)]
    for middle in range(count):  # what a state depends on through this one
        closed = [x | closed[middle] if x >> middle & 1 else x for x in closed]
    for mask in dict.fromkeys(closed):
        chain = [k for k in range(count) if mask >> k & 1]
        if len(chain) < count:
            yield chain, mask


def _early_with(
    b: Rewriter, trips: Trips, states: Sequence[oir.Value], known: Rows
) -> set[oir.Node]:
    """The nodes that work on each row once these states are known for all trips, and are not early
    before."""
    rows = {x: b.value("row", dtype_of(x), (trips.count, *shape_of(x))) for x in states}
    batcher = Batcher(b, trips, {**known, **rows})
    early = set()
    for node in nodes_in(trips.body):
        if node.outputs[0] not in known and batchable(batcher, node):
            early.add(node)
    return early


def _separated(b: Rewriter, trips: Trips, chain: Sequence[int]) -> list[oir.Value]:
    body, pairs = copied(b, trips.body)
    states = [trips.states[k] for k in chain]
    alone = Trips(trips.loop, trips.count, body)
    made, rows = rebuilt(b, alone, [pairs[x] for x in states], chain)
    remove_unused(body)
    final = dict(zip(chain, made, strict=True))
    for state, stack in zip(states, rows, strict=True):
        with b.before(trips.body[0]):
            row = row_of(b, trips, state, stack)
        replace_uses(state, row)
    kept = [k for k in range(len(trips.states)) if k not in final]
    left, stacks = rebuilt(b, trips, trips.rows, kept)
    final.update(zip(kept, left, strict=True))
    values = [*(final[k] for k in range(len(final))), *stacks]
    return [separate(b, old, new) for old, new in zip(trips.loop.outputs, values, strict=True)]
