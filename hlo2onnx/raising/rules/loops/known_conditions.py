"""In a branch and in a trip the condition is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.op_families import RESHAPES
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import dtype_of, rank_of, shape_of, size_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.views import first, operands
from hlo2onnx.rewrite.large_graphs import replace_input


class KnownConditions(Rule):
    """If(c, f(c), g(c)) -> If(c, f(True), g(False))

    The operands of And are true in the first branch, those of Or are false in the second one, and
    that of Not is the opposite.
    """

    name = "known-conditions"
    anchors = frozenset({"If"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        changed = False
        for name, truth in (("then_branch", True), ("else_branch", False)):
            known = dict(_implied(first(node), truth))
            if any(len(value.uses()) > 1 for value in known):
                changed |= _replaced(b, node.attributes[name].as_graph(), known)
        need(changed, "no branch reads its condition", node)
        types = [(dtype_of(x), shape_of(x)) for x in node.outputs]
        graphs = {name: item.as_graph() for name, item in node.attributes.items()}
        return b.node("If", [first(node)], graphs, types)


class KnownStates(Rule):
    """Loop(while c: s = f(s, c), c = p(s)) -> Loop(while c: s = f(s, True), c = p(s))

    A state that the condition for another trip is, or needs, holds the same number in every trip.
    Legal if it has one element and starts with that number, from a constant or as needed for the
    first trip. A `jax.vmap` over one lane masks the states of a while loop with its condition.
    """

    name = "known-state"
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        body = node.attributes["body"].as_graph()
        need(node.inputs[1] is not None, "only the number of its trips ends it", node)
        after = dict(_implied(body.outputs[0], True))
        first_trip = dict(_implied(node.inputs[1], True))
        known = {
            state: after[end]
            for state, end, start in zip(
                body.inputs[2:], body.outputs[1:], node.inputs[2:], strict=False
            )
            if end in after and state.uses() and _starts_with(b, start, after[end], first_trip)
        }
        need(known, "no state that the body reads is its condition", node)
        for state, truth in known.items():
            for reader, index in state.uses():
                replace_input(reader, index, _filled(b, state, truth))
        types = [(dtype_of(x), shape_of(x)) for x in node.outputs]
        return b.node("Loop", node.inputs, {"body": body}, types)


def _starts_with(
    b: Rewriter, start: oir.Value | None, truth: bool, first_trip: Mapping[oir.Value, bool]
) -> bool:
    """Whether a state of the first trip is known to hold this number."""
    if start is None:
        return False
    known = b.facts.truth(start)
    return (first_trip.get(start) if known is None else known) == truth


def _implied(value: oir.Value | None, truth: bool) -> Iterator[tuple[oir.Value, bool]]:
    """The values of one element that are known if this one is, with itself."""
    if value is None or size_of(value) != 1 or value.const_value is not None:
        return
    yield value, truth
    node = value.producer()
    if node is None or node.domain:
        return
    if node.op_type in ("Identity", "Not", *RESHAPES):
        yield from _implied(first(node), truth != (node.op_type == "Not"))
    elif node.op_type == ("And" if truth else "Or"):
        for x in operands(node):
            yield from _implied(x, truth)


def _filled(b: Rewriter, value: oir.Value, truth: bool) -> oir.Value:
    """A constant with the shape of a value of one element."""
    return b.const(np.full((1,) * rank_of(value), truth))


def _replaced(b: Rewriter, branch: oir.Graph, known: dict[oir.Value, bool]) -> bool:
    """Makes the nodes of a branch read constants instead of known values."""
    changed = False
    for node in all_nodes(branch):
        for index, x in enumerate(node.inputs):
            if x is not None and x in known:
                replace_input(node, index, _filled(b, x, known[x]))
                changed = True
    return changed
