"""States of an inner while loop that depend only on themselves move to a loop of their own."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.threefry import THREEFRY
from hlo2onnx.ir.traversal import reads
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.copies import copy_nodes, is_speculatable, makers_within, output_of
from hlo2onnx.raising.match.counted_loop import (
    Trips,
    counted,
    has_condition,
    has_one_shape,
    loop_around,
)
from hlo2onnx.raising.match.trip_bounds import most_trips
from hlo2onnx.raising.vectorize.batching import batched_body
from hlo2onnx.raising.vectorize.trip_rows import row_bytes
from hlo2onnx.rewrite.large_graphs import replace_uses, use_count
from hlo2onnx.rewrite.replace import remove_makers

_SCALAR = (oir.DataType.INT64, ())
_FLAG = (oir.DataType.BOOL, ())


class WhileFission(Rule):
    """Loop(n: Loop(while c: k = f(k); h = g(h, k))) ->
    Loop(n: ks = Loop(m: k = f(k)); Loop(while c: h = g(h, ks[i])))

    Legal if the inner loop makes at most m trips, k depends on no other state, nothing reads it
    after the loop, and f does not fail on any numbers: it is computed for trips that the loop does
    not make. Done for random numbers if m <= n and k starts from a value that depends on no state
    of the outer loop: then `loop-vectorize` makes the new loop once for all of its trips, and the
    inner loops make n trips in all if each of them makes one.
    """

    name = "while-fission"
    anchors = frozenset({"Loop"})
    # Before `pipeline-threefry`, which joins the keys with other random numbers.
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        need(has_condition(node), "loop-fission takes it", node)
        need(node.graph is not b.main_graph, "it is in no loop", node)
        inner = Trips(node, 0, node.attributes["body"].as_graph())
        chains = [k for k in range(len(inner.states)) if _is_chain(b, inner, k)]
        need(chains, "no random numbers are drawn from a state that depends on itself alone", node)
        most = needed(most_trips(node, b.facts), "it may make any number of trips", node)
        outer = counted(needed(loop_around(b, node), "it is not in the body of a loop", node))
        need(1 < most <= outer.count, "it may make more trips than the loop around it", node)
        rows = batched_body(b, outer).rows
        for k in chains:
            start = inner.initial[k]
            if start in rows or outer.is_outer(start):
                return _separated(b, Trips(node, most, inner.body), k)
        raise Refusal("the first key depends on a state of the loop around it", node)


def _is_chain(b: Rewriter, trips: Trips, k: int) -> bool:
    """Whether a state is a key that only becomes another one, and is small."""
    state, final = trips.states[k], trips.loop.outputs[k]
    if use_count(final) or final.is_graph_output():
        return False
    makers = makers_within(trips.body, [trips.after[k]])
    read = {x for each in makers for x in reads(each)}
    own = read.intersection(trips.body.inputs) == {state}
    draws = any(each.op_type == THREEFRY for each in makers)
    small = has_one_shape(b, state) and row_bytes(state) <= b.costs.trip_bytes
    return own and draws and small and all(map(is_speculatable, makers))


def _separated(b: Rewriter, trips: Trips, k: int) -> list[oir.Value]:
    """The results of the loop, in which a state is a row of another loop's stack."""
    state, after = trips.states[k], trips.after[k]
    stack = _stack(b, trips, k)
    with b.before(trips.body[0]):
        types = [(dtype_of(state), shape_of(state))]
        row = b.op("Gather", stack, trips.number, axis=0, types=types)
    replace_uses(state, row)
    trips.body.outputs.pop(1 + k)
    trips.body.inputs.pop(2 + k)
    remove_makers([after], within=trips.body)
    loop = trips.loop
    given = [x for place, x in enumerate(loop.inputs) if place != 2 + k]
    types = [(dtype_of(x), shape_of(x)) for place, x in enumerate(loop.outputs) if place != k]
    made = b.node("Loop", given, {"body": trips.body}, types)
    return [*made[:k], trips.initial[k], *made[k:]]


def _stack(b: Rewriter, trips: Trips, k: int) -> oir.Value:
    """The values of a state before each trip, by a loop of its own."""
    types = [(dtype_of(trips.states[k]), shape_of(trips.states[k]))]
    number, on = b.value(f"{b.scope}/trip", *_SCALAR), b.value(f"{b.scope}/on", *_FLAG)
    own = b.value(f"{b.scope}/key", *types[0])
    with b.subgraph([number, on, own], f"{b.scope}/keys") as body:
        values = {trips.states[k]: own}
        copy_nodes(b, makers_within(trips.body, [trips.after[k]]), values)
        following = output_of(b, body, values[trips.after[k]])
        body.outputs.extend([b.Identity(on), following, b.Identity(own)])
    types.append((types[0][0], (trips.count, *types[0][1])))
    given = [b.i64(trips.count), None, trips.initial[k]]
    return b.node("Loop", given, {"body": body}, types)[1]
