"""States that a loop keeps in lanes that have ended, where nothing reads them any more."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.traversal import nodes_in, reads
from hlo2onnx.ir.values import origin
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.copies import makers_within, output_of
from hlo2onnx.raising.match.lanes import kept_state, reached_from, root_of
from hlo2onnx.raising.match.views import maker_of, operands
from hlo2onnx.rewrite.large_graphs import use_count


class UnmaskState(Rule):
    """Loop(while any(m): k = Where(m, f(k), k); h = Where(m, g(h, k), h)) ->
    Loop(while any(m): k = f(k); h = Where(m, g(h, k), h))

    Legal if nothing reads k after the loop, a lane in which m is false stays so, and each lane of k
    has an effect on the same lane of other states alone, where m is true. Lanes that have ended
    then compute other numbers, by nodes that do not fail on any. m stays false if it is a state and
    becomes `m and ...`, or if it depends only on states that are kept where it is false. Loops
    under vmap have such masks. Keys of random numbers then depend on the number of trips alone.
    """

    name = "unmask-state"
    anchors = frozenset({"Loop"})
    # Selections between booleans have become `And` by then.
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        body = node.attributes["body"].as_graph()
        states, after = list(body.inputs)[2:], list(body.outputs)[1:]
        unread = [k for k, x in enumerate(node.outputs[: len(states)]) if not _is_used(x)]
        masked = [(k, kept) for k in unread if (kept := kept_state(after[k], states[k]))]
        need(masked, "no state is kept in some lanes, or it is read after the loop", node)
        for k, (mask, new) in masked:
            if _may_run_freely(body, k, mask):
                with b.at_end(body):
                    body.outputs[1 + k] = output_of(b, body, new)
                return b.copy_of(node)
        raise Refusal("the states are read in lanes that ended, or these may start again", node)


def _is_used(x: oir.Value) -> bool:
    return use_count(x) > 0 or x.is_graph_output()


def _may_run_freely(body: oir.Graph, k: int, mask: oir.Value) -> bool:
    """Whether what a state is where the mask does not hold has no effect."""
    try:
        _need_lasting(body, mask)
        found = reached_from(nodes_in(body), [body.inputs[2 + k]], mask)
    except Refusal:
        return False
    others = [x for place, x in enumerate(body.outputs) if place != 1 + k]
    return mask not in found and found.isdisjoint(others)


def _need_lasting(body: oir.Graph, mask: oir.Value) -> None:
    """Requires that lanes where the mask does not hold stay so in later trips."""
    states = list(body.inputs)[2:]
    after = dict(zip(states, list(body.outputs)[1:], strict=False))
    if mask in after:
        joined = maker_of(origin(after[mask]), "And")
        lasts = joined is not None and any(root_of(x) is mask for x in operands(joined))
        need(lasts, "a lane that ended may start again", mask)
        return
    makers = makers_within(body, [mask])
    need(makers, "the mask is not computed in the body", mask)
    read = {x for each in makers for x in reads(each)}
    need(read.isdisjoint(body.inputs[:2]), "the mask depends on the number of the trip", mask)
    sources = [x for x in states if x in read]
    need(sources, "the mask depends on no state", mask)
    for state in sources:
        kept = kept_state(after[state], state)
        need(kept and kept[0] is mask, "the mask depends on a state that changes", state)
    need(mask in reached_from(makers, sources), "the mask mixes lanes", mask)
