"""States and results of branches that are the same in every run."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import const_of, dtype_of, origin, present, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import release, separate
from hlo2onnx.raising.match.views import operands
from hlo2onnx.rewrite.large_graphs import replace_uses


class ConstantState(Rule):
    """Loop(s = 0, s = If(c, 0, s)) -> Loop(0)

    Legal if a state starts from a constant, and a trip gives it back or the same constant, through
    branches and selections. Solvers carry codes of errors that never change.
    """

    name = "constant-state"
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        body = node.attributes["body"].as_graph()
        states, given = list(body.inputs[2:]), present(node.inputs[2:])
        fixed = [
            k
            for k, (state, start) in enumerate(zip(states, given, strict=True))
            if const_of(start) is not None
            and not state.is_graph_output()
            and _is_kept(body.outputs[1 + k], state, start)
        ]
        need(fixed, "a trip may change each of its states", node)
        for k in reversed(fixed):
            body.outputs.pop(1 + k)
            body.inputs.pop(2 + k)
            replace_uses(states[k], given[k])
        kept = [k for k in range(len(node.outputs)) if k not in fixed]
        types = [(dtype_of(node.outputs[k]), shape_of(node.outputs[k])) for k in kept]
        inputs = [x for k, x in enumerate(node.inputs) if k - 2 not in fixed]
        if not kept:
            release(body)
        made = iter(b.node("Loop", inputs, {"body": body}, types) if kept else ())
        return [
            separate(b, old, given[k]) if k in fixed else next(made)
            for k, old in enumerate(node.outputs)
        ]


class EqualBranches(Rule):
    """If(c, (0, f), (0, g)) -> 0, If(c, f, g)

    Legal if both branches give the same constant, or the same value made before them.
    """

    name = "equal-branches"
    anchors = frozenset({"If"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        branches = subgraphs(node)
        first, second = (list(map(origin, branch.outputs)) for branch in branches)
        shared = [k for k, (x, y) in enumerate(zip(first, second, strict=True)) if _are_equal(x, y)]
        need(shared, "the branches give different results", node)
        for branch in branches:
            for k in reversed(shared):
                branch.outputs.pop(k)
            if not branch.outputs:
                release(branch)
        kept = [k for k in range(len(node.outputs)) if k not in shared]
        types = [(dtype_of(node.outputs[k]), shape_of(node.outputs[k])) for k in kept]
        graphs = {name: item.as_graph() for name, item in node.attributes.items()}
        made = iter(b.node("If", node.inputs, graphs, types) if kept else ())
        return [
            separate(b, old, first[k]) if k in shared else next(made)
            for k, old in enumerate(node.outputs)
        ]


def _is_kept(after: oir.Value, state: oir.Value, start: oir.Value) -> bool:
    """Whether a state, which has had its first value so far, keeps it."""
    value = origin(after)
    if value is state or _are_equal(value, start):
        return True
    maker = value.producer()
    if maker is None or maker.domain or shape_of(value) != shape_of(start):
        return False
    if maker.op_type == "If":
        place = value.index()
        assert place is not None
        return all(_is_kept(branch.outputs[place], state, start) for branch in subgraphs(maker))
    is_selected = maker.op_type == "Where"
    return is_selected and all(_is_kept(x, state, start) for x in operands(maker)[1:])


def _are_equal(x: oir.Value, y: oir.Value) -> bool:
    """Whether two values are the same one, or constants with the same bits."""
    mine, other = const_of(x), const_of(y)
    if mine is None or other is None:
        return x is y
    same = (mine.dtype, mine.shape) == (other.dtype, other.shape)
    return same and mine.tobytes() == other.tobytes()
