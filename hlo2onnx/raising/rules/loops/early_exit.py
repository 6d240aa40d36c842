"""Loops end when their trips would only copy the states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.traversal import replace_uses
from hlo2onnx.ir.values import const_of, dtype_of, origin, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.copies import copy_nodes, is_speculatable, makers_within, output_of
from hlo2onnx.raising.match.counted_loop import Trips, counted
from hlo2onnx.raising.match.views import first

MOST_NODES = 32
"""Most nodes of a condition, which is stored twice. A limit on the size of the model, not a
cost."""


class EarlyExit(Rule):
    """Loop(n, s = If(p(s), f(s), s)) -> Loop(n, while p(s): s = f(s))

    Legal if the condition depends only on states and on values made before the loop, one branch
    returns every state unchanged, nothing is stacked, and no part of the condition fails on any
    state. Once the condition is false it stays so, as no state changes any more. Programs write
    bounded while loops like this, to differentiate them.
    """

    name = "early-exit"
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        need(not b.target.flags.no_loop, "the target runs no such Loop", node)
        trips = counted(node)
        need(trips.count > 1, "it makes one trip", node)
        need(not trips.rows, "each trip stacks a row", node)
        branches = _choice(trips)
        condition = first(branches)
        going = _goes_on(trips, branches)
        makers = makers_within(trips.body, [condition])
        need(len(makers) <= MOST_NODES, "the condition has too many nodes", node)
        for maker in makers:
            need(is_speculatable(maker), "it may fail after the last trip", maker)
        read = {condition, *(x for maker in makers for x in maker.inputs)}
        need(not read.isdisjoint(trips.states), "the condition depends on no state", node)
        counts = not read.isdisjoint(trips.body.inputs[:2])
        need(not counts, "the condition depends on the trip number", node)
        start = _condition(b, makers, condition, trips.states, trips.initial, going)
        with b.at_end(trips.body):
            end = _condition(b, makers, condition, trips.states, trips.after, going)
            trips.body.outputs[0] = output_of(b, trips.body, end)
        replace_uses(condition, b.const(np.array(going)))
        inputs = [node.inputs[0], start, *trips.initial]
        types = [(dtype_of(x), shape_of(x)) for x in node.outputs]
        return b.node("Loop", inputs, {"body": trips.body}, types)


def _condition(
    b: Rewriter,
    makers: Sequence[oir.Node],
    condition: oir.Value,
    states: Sequence[oir.Value],
    given: Sequence[oir.Value],
    going: bool,
) -> oir.Value:
    """Whether a trip with these states changes them."""
    values = dict(zip(states, given, strict=True))
    copy_nodes(b, makers, values)
    return values[condition] if going else b.Not(values[condition])


def _choice(trips: Trips) -> oir.Node:
    """The If that makes all states that the body changes."""
    makers = {value.producer() for value in _changed(trips)}
    need(len(makers) == 1, "not exactly one node makes the states", trips.loop)
    (node,) = makers
    need(node is not None and node.op_type == "If", "no If makes the states", node)
    assert node is not None
    need(node.graph is trips.body, "the If is in another graph", node)
    return node


def _changed(trips: Trips) -> list[oir.Value]:
    pairs = zip(trips.states, map(origin, trips.after), strict=True)
    return [after for state, after in pairs if after is not state]


def _goes_on(trips: Trips, branches: oir.Node) -> bool:
    """The condition with which a trip changes states: the other branch returns all of them
    unchanged."""
    pairs = [
        (state, x.index())
        for state, x in zip(trips.states, map(origin, trips.after), strict=True)
        if x is not state
    ]
    for name, going in (("else_branch", True), ("then_branch", False)):
        results = list(map(origin, branches.attributes[name].as_graph().outputs))
        if all(
            k is not None
            and (results[k] is state or (state is first(branches) and _is(results[k], not going)))
            for state, k in pairs
        ):
            return going
    raise Refusal("both branches change states", branches)


def _is(value: oir.Value, truth: bool) -> bool:
    """Whether a value is this constant."""
    content = const_of(value)
    return content is not None and bool(content.all()) == truth
