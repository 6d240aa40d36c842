"""States that are equal in every trip, and results that are equal in both branches."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import dtype_of, origin, present, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import separate
from hlo2onnx.raising.match.value_numbering import Numbering, key_of, rough_key_of
from hlo2onnx.rewrite.large_graphs import replace_uses


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
        states = list(body.inputs[2:])
        kept_as = {
            m: equal[0]
            for equal in _equal_states(node, body)
            for m in equal[1:]
            if not states[m].is_graph_output()
        }
        need(kept_as, "no two states are known to be equal", node)
        for m in sorted(kept_as, reverse=True):
            replace_uses(states[m], states[kept_as[m]])
            body.outputs.pop(1 + m)
            body.inputs.pop(2 + m)
        inputs = [x for k, x in enumerate(node.inputs) if k - 2 not in kept_as]
        return _rebuilt(b, node, inputs, {"body": body}, kept_as)


class EqualResults(Rule):
    """If(c, (f, f), (g, g)) -> If(c, f, g)

    Legal if both branches give two results the same value, or constants with the same bits.
    """

    name = "equal-results"
    anchors = frozenset({"If"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        branches = subgraphs(node)
        rows = list(zip(*(map(key_of, branch.outputs) for branch in branches), strict=True))
        kept_as = {m: equal[0] for equal in _grouped(range(len(rows)), rows) for m in equal[1:]}
        need(kept_as, "no two results are equal in both branches", node)
        for branch in branches:
            for m in sorted(kept_as, reverse=True):
                branch.outputs.pop(m)
        graphs = {name: item.as_graph() for name, item in node.attributes.items()}
        return _rebuilt(b, node, node.inputs, graphs, kept_as)


def _equal_states(loop: oir.Node, body: oir.Graph) -> list[list[int]]:
    """The numbers of states, in classes of states that are equal before every trip.

    All states that start equal, and that a trip may give the same value, are in one class at
    first. A class is divided as long as a trip gives its states different values.
    """
    states, given = list(body.inputs[2:]), set(body.inputs[2:])
    after = [origin(x) for x in body.outputs[1 : 1 + len(states)]]
    starts = [
        (key_of(start), dtype_of(state), shape_of(state), rough_key_of(x, given))
        for start, state, x in zip(present(loop.inputs[2:]), states, after, strict=True)
    ]
    classes = _Classes(states, after, starts)
    classes.divide()
    return _grouped(range(len(states)), [classes.number_of[state] for state in states])


class _Classes:
    """States in classes, and what they become (see `origin`).

    Of a class that is divided, the largest part keeps its number, and only states that may become
    members of others are looked at again. So a state is looked at a few times (Hopcroft), also in a
    row of states that become each other.

    Attributes:
        number_of: The number of the class of each state.
    """

    def __init__(
        self, states: Sequence[oir.Value], after: Sequence[oir.Value], starts: Sequence[Hashable]
    ) -> None:
        self._members = [
            {states[k] for k in equal} for equal in _grouped(range(len(states)), starts)
        ]
        self.number_of = {x: n for n, members in enumerate(self._members) for x in members}
        self._after = dict(zip(states, after, strict=True))
        self._becomes: dict[oir.Value, list[oir.Value]] = {}
        for state, x in self._after.items():
            self._becomes.setdefault(x, []).append(state)
        self._keys: dict[oir.Value, Hashable] = {x: ("class", n) for x, n in self.number_of.items()}
        self._numbering = Numbering(self._keys)

    def divide(self) -> None:
        """Divides classes until a trip gives all states of each class the same value."""
        pending = {n: set(members) for n, members in enumerate(self._members) if len(members) > 1}
        while pending:
            n, looked_at = pending.popitem()
            changed = [x for part in self._parts(n, looked_at) for x in self._moved(n, part)]
            for x in self._numbering.forget(changed):
                for state in self._becomes.get(x, ()):
                    pending.setdefault(self.number_of[state], set()).add(state)

    def _parts(self, n: int, looked_at: set[oir.Value]) -> list[set[oir.Value]]:
        """The parts of a class that leave it.

        Args:
            looked_at: Members that may get other values than the rest.
        """
        parts: dict[int, set[oir.Value]] = {}
        for state in looked_at:
            parts.setdefault(self._next(state), set()).add(state)
        members = self._members[n]
        rest = next((x for x in members if x not in looked_at), None)
        if rest is not None:
            parts.pop(self._next(rest), None)
        if not parts:
            return []
        leaving = sorted(parts.values(), key=len)
        largest = leaving[-1]
        others = len(members) - sum(map(len, leaving))
        if others < len(largest):
            leaving.pop()
            if others:
                leaving.append(members.difference(largest, *leaving))
        return leaving

    def _next(self, state: oir.Value) -> int:
        """The number of the value that a trip gives a state."""
        return self._numbering.number(self._after[state])

    def _moved(self, n: int, part: set[oir.Value]) -> set[oir.Value]:
        """A part of a class, which becomes another class."""
        self._members[n] -= part
        for x in part:
            self.number_of[x] = len(self._members)
            self._keys[x] = ("class", len(self._members))
        self._members.append(part)
        return part


def _grouped(members: Iterable[int], keys: Sequence[Hashable]) -> list[list[int]]:
    """Members with equal keys together, in order."""
    groups: dict[Hashable, list[int]] = {}
    for k in members:
        groups.setdefault(keys[k], []).append(k)
    return list(groups.values())


def _rebuilt(
    b: Rewriter,
    node: oir.Node,
    inputs: Sequence[oir.Value | None],
    graphs: Mapping[str, oir.Graph],
    kept_as: Mapping[int, int],
) -> list[oir.Value]:
    """The results of a node whose bodies give fewer results, each of them where it was."""
    left = [k for k in range(len(node.outputs)) if k not in kept_as]
    types = [(dtype_of(node.outputs[k]), shape_of(node.outputs[k])) for k in left]
    made = dict(zip(left, b.node(node.op_type, inputs, graphs, types), strict=True))
    return [
        separate(b, old, made[kept_as[k]]) if k in kept_as else made[k]
        for k, old in enumerate(node.outputs)
    ]
