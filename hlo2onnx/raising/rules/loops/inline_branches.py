"""Branches that are always taken or never, and loops of one trip or none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.analysis.evaluator import known_array
from hlo2onnx.ir.values import dtype_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import release, separate
from hlo2onnx.rewrite.replace import detach


class InlineBranch(Rule):
    """If(True, f, g) -> f, If(False, f, g) -> g

    Legal where the condition follows from constants, or from the ranges of integers. ONNX Runtime
    inlines such branches itself when it loads a model, and its process ends where one is in
    another. So a model has none, even if this rule is switched off: it then comes after the others.
    """

    name = "inline-branch"
    anchors = frozenset({"If"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        condition = node.inputs[0]
        assert condition is not None
        known = b.facts.truth(condition)
        if known is None:
            content = known_array(condition)
            known = None if content is None else bool(content.item())
        need(known is not None, "its condition is not known", condition)
        names = ("then_branch", "else_branch") if known else ("else_branch", "then_branch")
        taken, other = (node.attributes[name].as_graph() for name in names)
        detach(other)
        values = _inlined(node, taken)
        for old, new in zip(node.outputs, values, strict=True):
            if static_shape(new) is None and static_shape(old) is not None:
                new.shape = old.shape
        return values


class InlineSingleTrip(Rule):
    """Loop of one trip -> its body, Loop of no trip -> its initial states

    Legal where the number of trips and the condition before the first one are known. A loop whose
    body ends with the condition False makes one trip at most.
    """

    name = "inline-single-trip"
    formerly = ("inline-trip",)
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        body = node.attributes["body"].as_graph()
        trips = _trips(node, body, b)
        need(trips is not None, "it may make more than one trip", node)
        initial = [x for x in node.inputs[2:] if x is not None]
        if trips:
            results = _one_trip(node, body, initial, b)
        else:
            rows = [static_shape(row) for row in body.outputs[1 + len(initial) :]]
            need(None not in rows, "the shape of what it stacks is not known", node)
            stacks = zip(node.outputs[len(initial) :], rows, strict=True)
            empty = [b.const(np.zeros((0, *(row or ())), dtype_of(x).numpy())) for x, row in stacks]
            results = [*initial, *empty]
            release(body)
        return [separate(b, old, new) for old, new in zip(node.outputs, results, strict=True)]


def _trips(loop: oir.Node, body: oir.Graph, b: Rewriter) -> int | None:
    """The number of trips where it is 0 or 1."""
    limit, first = loop.inputs[:2]
    bounds = b.facts.int_range(limit) if limit is not None else None
    starts = b.facts.truth(first) if first is not None else True
    if starts is False or (bounds is not None and bounds.high <= 0):
        return 0
    goes_on = b.facts.truth(body.outputs[0])
    is_one = bounds == (1, 1) or (goes_on is False and (bounds is None or bounds.low >= 1))
    return 1 if starts and is_one else None


def _one_trip(
    node: oir.Node, body: oir.Graph, initial: Sequence[oir.Value], b: Rewriter
) -> list[oir.Value]:
    """The states after the trip, and the stacks of one row."""
    given = [b.i64(0), b.const(np.array(True)), *initial]
    for inner, value in zip(body.inputs, given, strict=True):
        oir.convenience.replace_all_uses_with(inner, value)
    _, *values = _inlined(node, body)
    states, rows = values[: len(initial)], values[len(initial) :]
    return [*states, *(b.unsqueeze(row, [0]) for row in rows)]


def _inlined(node: oir.Node, inner: oir.Graph) -> list[oir.Value]:
    """Moves the nodes of a subgraph in front of the node that holds it; what the subgraph gave."""
    outer, values = node.graph, list(inner.outputs)
    assert outer is not None
    inner.outputs.clear()
    for each in list(inner):
        inner.remove(each)
        outer.insert_before(node, each)
    return values
