"""States that depend only on themselves move to a separate loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.replace import detach
from hlo2onnx.ir.threefry import THREEFRY, WRITTEN_NODES
from hlo2onnx.ir.traversal import nodes_in, reads, remove_node, replace_uses, subgraphs
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule
from hlo2onnx.raising.match.counted_loop import Trips, counted, has_one_shape, rebuilt, separate
from hlo2onnx.raising.match.nested_loops import copied
from hlo2onnx.raising.vectorize.batching import Batcher, batchable
from hlo2onnx.raising.vectorize.trip_rows import row_bytes


class LoopFission(Rule):
    """Loop(k = f(k); h = g(h, k)) -> Loop(k = f(k)) stacking k; Loop(h = g(h, k[i]))

    Legal if a state depends on no other state, the number of trips is known and not 0, and its
    shape is the same in every trip. Done for small states if much of the rest then depends on rows,
    for `loop-vectorize`, and more than both loops compute: random numbers are drawn for all trips
    at once from keys that are split in each trip.
    """

    name = "loop-fission"
    formerly = ("separate-chain",)
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips, costs = counted(node), b.costs
        read = _states_read(trips)
        following: dict[int, list[oir.Node]] | None = None
        for chain, mask in _chains(trips, read):
            size = sum(row_bytes(trips.states[k]) for k in chain)
            if size > costs.trip_bytes or size * trips.count > costs.cached_bytes:
                continue
            if not all(has_one_shape(b, trips.states[k]) for k in chain):
                continue
            if following is None:  # few loops have such a chain
                following = _by_first_state(trips, read)
            own = _makers(trips, [trips.after[k] for k in chain])
            nodes = [x for k in chain for x in following.get(1 << k, ()) if x not in own]
            nodes = [x for x in nodes if not read[x.outputs[0]] & ~mask]
            if _work(nodes) < costs.fission_nodes:
                continue
            by_rows = _by_rows(b, trips, chain)
            least = costs.fission_nodes + _work(_twice(trips, chain, own - by_rows))
            if _work([node for node in nodes if node in by_rows]) >= least:
                return _separated(b, trips, chain)
        raise Refusal("no state depends on itself alone, or few nodes depend on it", node)


def _chains(trips: Trips, read: Mapping[oir.Value, int]) -> Iterator[tuple[list[int], int]]:
    """Positions of states that depend only on each other, but not on all states; as bits, too.

    Args:
        read: See `_states_read`.
    """
    closed = [read.get(x, 0) | 1 << k for k, x in enumerate(trips.after)]
    while (wider := [_union(closed, k) for k in closed]) != closed:
        closed = wider
    for chain in dict.fromkeys(closed):
        places = _places(chain)
        if len(places) < len(closed):
            yield places, chain


def _by_first_state(trips: Trips, read: Mapping[oir.Value, int]) -> dict[int, list[oir.Node]]:
    """The nodes by the first state that they depend on."""
    following: dict[int, list[oir.Node]] = {}
    for node in nodes_in(trips.body):
        if mask := read[node.outputs[0]]:
            following.setdefault(mask & -mask, []).append(node)
    return following


def _states_read(trips: Trips) -> dict[oir.Value, int]:
    """The states that each value of the body depends on, as bits."""
    read = {state: 1 << k for k, state in enumerate(trips.states)}
    for node in nodes_in(trips.body):
        mask = 0
        for x in reads(node) if node.attributes.data else node.inputs:
            if x is not None and x in read:
                mask |= read[x]
        for output in node.outputs:
            read[output] = mask
    return read


def _places(mask: int) -> list[int]:
    places = []
    while mask:
        lowest = mask & -mask
        places.append(lowest.bit_length() - 1)
        mask ^= lowest
    return places


def _union(masks: Sequence[int], chosen: int) -> int:
    union = chosen
    for k in _places(chosen):
        union |= masks[k]
    return union


def _makers(trips: Trips, values: Sequence[oir.Value]) -> set[oir.Node]:
    """The nodes of the body that compute these values."""
    pending, found = list(values), set[oir.Node]()
    while pending:
        value = pending.pop()
        node = value.producer()
        if node is not None and node not in found and not trips.is_outer(value):
            found.add(node)
            pending += reads(node)
    return found


def _work(nodes: Sequence[oir.Node]) -> int:
    work = sum(max(1, sum(len(graph) for graph in subgraphs(node))) for node in nodes)
    return work + WRITTEN_NODES * sum(node.op_type == THREEFRY for node in nodes)


def _twice(trips: Trips, chain: Sequence[int], own: set[oir.Node]) -> list[oir.Node]:
    """Those of the chain's own nodes that the other loop needs, too."""
    after = [x for k, x in enumerate(trips.after) if k not in chain]
    needed = _makers(trips, [*after, *trips.rows])
    return [node for node in own if node in needed]


def _by_rows(b: Rewriter, trips: Trips, chain: Sequence[int]) -> set[oir.Node]:
    """The nodes that could be done for all trips at once, once the chain is known."""
    states = [trips.states[k] for k in chain]
    dims = [(trips.count, *shape_of(x)) for x in states]
    rows = {x: b.value("row", dtype_of(x), its) for x, its in zip(states, dims, strict=True)}
    batcher = Batcher(b, trips, rows)
    return {node for node in trips.body if batchable(batcher, node)}


def _separated(b: Rewriter, trips: Trips, chain: Sequence[int]) -> list[oir.Value]:
    made = _loop(b, trips, chain)
    final = dict(zip(chain, made, strict=False))
    for k, stack in zip(chain, made[len(chain) :], strict=True):
        state = trips.states[k]
        with b.before(trips.body[0]):
            types = [(dtype_of(state), shape_of(state))]
            row = b.op("Gather", stack, trips.number, axis=0, types=types)
        replace_uses(state, row)
    separate_states = set(chain)
    kept = [k for k in range(len(trips.states)) if k not in separate_states]
    left, stacks = rebuilt(b, trips, trips.rows, kept)
    final.update(zip(kept, left, strict=True))
    values = [*(final[k] for k in range(len(final))), *stacks]
    return [separate(b, old, new) for old, new in zip(trips.loop.outputs, values, strict=True)]


def _loop(b: Rewriter, trips: Trips, chain: Sequence[int]) -> list[oir.Value]:
    """The final states of a chain, and stacks of its states before each trip."""
    body, pairs = copied(b, trips.body)
    states = [pairs[trips.states[k]] for k in chain]
    kept = [body.outputs[0], *(body.outputs[1 + k] for k in chain)]
    body.outputs.clear()
    body.outputs.extend(kept)
    with b.at_end(body):
        body.outputs.extend([b.Identity(state) for state in states])
    for node in reversed(list(body)):
        if not any(x.uses() or x.is_graph_output() for x in node.outputs):
            for graph in subgraphs(node):
                detach(graph)
            remove_node(node)
    inputs = [*list(body.inputs)[:2], *states]
    body.inputs.clear()
    body.inputs.extend(inputs)
    types = [(dtype_of(x), shape_of(x)) for x in states]
    types += [(dtype_of(x), (trips.count, *shape_of(x))) for x in states]
    given = [trips.loop.inputs[0], None, *(trips.initial[k] for k in chain)]
    return b.node("Loop", given, {"body": body}, types)
