"""States that are equal in every trip, and results that are equal in both branches."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as oir

from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import const_of, dtype_of, origin, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import separate
from hlo2onnx.raising.match.views import operands
from hlo2onnx.rewrite.large_graphs import replace_uses

Pair = tuple[oir.Value, oir.Value]


class EqualStates(Rule):
    """Loop(s = x, t = x, s = f(s), t = f(t)) -> Loop(s = x, s = f(s))

    Legal if both states start from the same value, and a trip gives both the same value if they
    have been equal so far: one value, a copy, choices of branches or of Where under one condition.
    Solvers keep what they have linearized beside the state of the search.
    """

    name = "equal-states"
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        body = node.attributes["body"].as_graph()
        states, after = list(body.inputs[2:]), list(body.outputs[1:])
        given = list(node.inputs[2:])
        alike = {
            (k, m)
            for m, y in enumerate(given)
            for k, x in enumerate(given[:m])
            if x is not None and y is not None and _is_same(x, y)
            and (dtype_of(states[k]), shape_of(states[k])) == (
                dtype_of(states[m]), shape_of(states[m]))
            and not states[m].is_graph_output()
        }  # fmt: skip
        while True:
            known = {(states[k], states[m]) for k, m in alike}
            wrong = {(k, m) for k, m in alike if not _are_equal(after[k], after[m], known)}
            if not wrong:
                break
            alike -= wrong
        need(alike, "no two states are known to be equal", node)
        kept_as: dict[int, int] = {}
        for k, m in sorted(alike):
            kept_as.setdefault(m, kept_as.get(k, k))
        for m in sorted(kept_as, reverse=True):
            replace_uses(states[m], states[kept_as[m]])
            body.outputs.pop(1 + m)
            body.inputs.pop(2 + m)
        left = [k for k in range(len(node.outputs)) if k not in kept_as]
        types = [(dtype_of(node.outputs[k]), shape_of(node.outputs[k])) for k in left]
        inputs = [x for k, x in enumerate(node.inputs) if k - 2 not in kept_as]
        made = dict(zip(left, b.node("Loop", inputs, {"body": body}, types), strict=True))
        return [
            separate(b, old, made[kept_as[k]]) if k in kept_as else made[k]
            for k, old in enumerate(node.outputs)
        ]


class EqualResults(Rule):
    """If(c, (f, f), (g, g)) -> If(c, f, g)

    Legal if both branches give two results the same value, or constants with the same bits.
    """

    name = "equal-results"
    anchors = frozenset({"If"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        branches = subgraphs(node)
        rows = list(zip(*(list(branch.outputs) for branch in branches), strict=True))
        kept_as: dict[int, int] = {}
        for m, row in enumerate(rows):
            for k in range(m):
                if k not in kept_as and all(map(_is_same, rows[k], row)):
                    kept_as[m] = k
                    break
        need(kept_as, "no two results are equal in both branches", node)
        for branch in branches:
            for m in sorted(kept_as, reverse=True):
                branch.outputs.pop(m)
        left = [k for k in range(len(rows)) if k not in kept_as]
        types = [(dtype_of(node.outputs[k]), shape_of(node.outputs[k])) for k in left]
        graphs = {name: item.as_graph() for name, item in node.attributes.items()}
        made = dict(zip(left, b.node("If", node.inputs, graphs, types), strict=True))
        return [
            separate(b, old, made[kept_as[k]]) if k in kept_as else made[k]
            for k, old in enumerate(node.outputs)
        ]


def _is_same(x: oir.Value, y: oir.Value) -> bool:
    """Whether two values are the same one, or constants with the same bits."""
    mine, other = const_of(x), const_of(y)
    if origin(x) is origin(y) or mine is None or other is None:
        return origin(x) is origin(y)
    same = (mine.dtype, mine.shape) == (other.dtype, other.shape)
    return same and mine.tobytes() == other.tobytes()


def _are_equal(x: oir.Value, y: oir.Value, known: Collection[Pair]) -> bool:
    """Whether two values are equal if these pairs of states are."""
    pending, seen = [(x, y)], set[Pair]()
    while pending:
        x, y = map(origin, pending.pop())
        if x is y or (x, y) in seen or (x, y) in known or (y, x) in known:
            continue
        seen.add((x, y))
        chosen = _choices(x, y)
        if chosen is None:
            return False
        pending += chosen
    return True


def _choices(x: oir.Value, y: oir.Value) -> list[Pair] | None:
    """The pairs that two values are one of, chosen by one condition; None for other values."""
    mine, other = x.producer(), y.producer()
    if mine is None or other is None or mine.domain or other.domain:
        return None
    if mine is other and mine.op_type == "If":
        k, m = mine.outputs.index(x), mine.outputs.index(y)
        return [(each.outputs[k], each.outputs[m]) for each in subgraphs(mine)]
    both_choose = mine.op_type == other.op_type == "Where" and mine.inputs[0] is other.inputs[0]
    if not both_choose or shape_of(x) != shape_of(y):
        return None
    return list(zip(operands(mine)[1:], operands(other)[1:], strict=True))
