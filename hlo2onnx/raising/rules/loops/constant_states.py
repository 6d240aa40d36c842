"""States and results of branches that are the same in every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import known_array
from hlo2onnx.ir.traversal import replace_uses, subgraphs
from hlo2onnx.ir.values import INTEGERS, const_of, dtype_of, origin, present, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.copies import copy_nodes, makers_within
from hlo2onnx.raising.match.counted_loop import release, separate
from hlo2onnx.raising.match.views import both_orders, maker_of, operands
from hlo2onnx.raising.match.views import first as first_operand


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
    """If(c, (0, f), (0, g)) -> 0, If(c, f, g); If(s == 0, 1, s + 1) -> s + 1

    Legal if both branches give the same constant, or the same value made before them; or if the
    condition says that an integer equals a constant, the first branch gives a constant, and the
    second one computes the same from that integer. The first of several trips is told from the
    others like this.
    """

    name = "equal-branches"
    anchors = frozenset({"If"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        branches = subgraphs(node)
        first, second = (list(map(origin, branch.outputs)) for branch in branches)
        equal = _equal_number(first_operand(node))
        shared: dict[int, oir.Value] = {}
        for k, (x, y) in enumerate(zip(first, second, strict=True)):
            if _are_same(x, y):
                shared[k] = x
            elif equal is not None and _is_constant_given(x, y, equal):
                makers = makers_within(branches[1], [y])
                copies: dict[oir.Value, oir.Value] = {}
                copy_nodes(b, makers, copies)
                shared[k] = copies.get(y, y)
        need(shared, "the branches give different results", node)
        for branch in branches:
            for k in sorted(shared, reverse=True):
                branch.outputs.pop(k)
            if not branch.outputs:
                release(branch)
        kept = [k for k in range(len(node.outputs)) if k not in shared]
        types = [(dtype_of(node.outputs[k]), shape_of(node.outputs[k])) for k in kept]
        graphs = {name: item.as_graph() for name, item in node.attributes.items()}
        made = iter(b.node("If", node.inputs, graphs, types) if kept else ())
        return [
            separate(b, old, shared[k]) if k in shared else next(made)
            for k, old in enumerate(node.outputs)
        ]


def _equal_number(condition: oir.Value) -> dict[oir.Value, np.ndarray] | None:
    """The integer that equals a constant if a condition holds, and the constant."""
    comparison = maker_of(condition, "Equal")
    for x, y in () if comparison is None else both_orders(comparison):
        number = const_of(y)
        if number is not None and dtype_of(x) in INTEGERS and shape_of(x) == number.shape == ():
            return {x: number}
    return None


def _is_constant_given(x: oir.Value, y: oir.Value, known: Mapping[oir.Value, np.ndarray]) -> bool:
    """Whether one value is a constant, and another one is the same if some values are known."""
    constant, computed = const_of(x), known_array(y, given=known)
    return constant is not None and computed is not None and _have_same_bits(constant, computed)


def _is_kept(after: oir.Value, state: oir.Value, start: oir.Value) -> bool:
    """Whether a state, which has had its first value so far, keeps it."""
    pending, seen = [after], set[oir.Value]()
    while pending:
        value = origin(pending.pop())
        if value in seen or value is state or _are_same(value, start):
            continue
        seen.add(value)
        maker = value.producer()
        if maker is None or maker.domain or shape_of(value) != shape_of(start):
            return False
        if maker.op_type == "If":
            place = value.index()
            assert place is not None
            pending += [branch.outputs[place] for branch in subgraphs(maker)]
        elif maker.op_type == "Where":
            pending += operands(maker)[1:]
        else:
            return False
    return True


def _are_same(x: oir.Value, y: oir.Value) -> bool:
    """Whether two values are copies of one value, or constants with the same bits."""
    if origin(x) is origin(y):
        return True
    mine, other = const_of(x), const_of(y)
    return mine is not None and other is not None and _have_same_bits(mine, other)


def _have_same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    same = (one.dtype, one.shape) == (other.dtype, other.shape)
    return same and one.tobytes() == other.tobytes()
