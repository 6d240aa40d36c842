"""Facts that hold in every trip of a loop: the ranges of numbers in bodies and of what they give.

The range of an integer state is one that the body does not leave: it is assumed, and proven for one
trip. That of a counter follows from the number of trips. The range of a float state has its first
value, and what a trip gives for any float states.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

import onnx_ir as oir

from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.float_ranges import FloatRange
from hlo2onnx.ir.loop_counters import (
    length_of_scan,
    limit_of_next,
    states_of,
    step_of,
    unsaturated,
)
from hlo2onnx.ir.ranges import Range, range_of_type, union
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.ir.values import INTEGERS, dtype_of, origin

_ROUNDS: Final = 4
"""How often the ranges of the states may grow before they are those of their types."""
_DEEPEST: Final = 2
"""Loops in loops whose states are followed at a time."""
_WITH_BODIES: Final = frozenset({"If", "Loop", "Scan"})

_Place = tuple[oir.Node, oir.Graph, int]


class LoopFacts(Facts):
    """Facts about the values of a graph and of the bodies in it.

    Args:
        graph: The main graph. Loops that are made or replaced later are not followed.
        owners: The node of each body, if they are known.
    """

    def __init__(
        self, graph: oir.Graph, owners: Mapping[oir.Graph, oir.Node] | None = None
    ) -> None:
        super().__init__()
        self._graph = graph
        if owners is not None:
            self._owners = owners
        self._assumed: dict[oir.Value, Range] = {}
        self._invariants: dict[oir.Node, dict[oir.Value, Range]] = {}
        self._tops: dict[oir.Value, int] = {}  # of counters, within trips
        self._of_any_floats: dict[oir.Graph, LoopFacts] = {}
        self._any_floats: frozenset[oir.Value] = frozenset()
        self._depth = 0
        self._around: LoopFacts | None = None
        self._body: oir.Graph | None = None

    @cached_property
    def _owners(self) -> Mapping[oir.Graph, oir.Node]:
        """The node of each body."""
        return {body: node for node in all_nodes(self._graph) for body in subgraphs(node)}

    @cached_property
    def _places(self) -> Mapping[oir.Value, _Place]:
        """The node, the body and the position of each input of a body."""
        return {
            value: (node, body, index)
            for body, node in self._owners.items()
            for index, value in enumerate(body.inputs)
        }

    def forget(self) -> None:
        """Drops what refers to these facts, which would keep removed nodes until Python collects
        cyclic garbage."""
        for inner in self._of_any_floats.values():
            inner.forget()
        self._of_any_floats.clear()

    def is_repeated(self, inner: oir.Graph, outer: oir.Graph) -> bool:
        """Whether a Loop or Scan within `outer` holds `inner`, or is the node of it."""
        graph, loops = inner, False
        while graph is not outer:
            owner = self._owners.get(graph)
            if owner is None or not isinstance(owner.graph, oir.Graph):
                return False
            loops, graph = loops or owner.op_type in ("Loop", "Scan"), owner.graph
        return loops

    def _int_range(self, value: oir.Value) -> Range | None:
        if value in self._assumed:
            return self._assumed[value]
        node = value.producer()
        if self._around is not None and node is not None and self._is_outer(node):
            return self._around.int_range(value)
        place = self._places.get(value) if node is None else None
        if place is not None and place[0].graph is not None:
            return self._of_body_input(value, *place)
        if node is not None and node.op_type in _WITH_BODIES:
            return self._of_result(value, node)
        return super()._int_range(value)

    def _float_range(self, value: oir.Value) -> FloatRange:
        sources = self._sources(value)
        if sources is None:
            return super()._float_range(value)
        return FloatRange(*union([facts.float_range(x) for facts, x in sources]))

    def _is_nan_free(self, value: oir.Value) -> bool:
        sources = self._sources(value)
        if sources is None:
            return super()._is_nan_free(value)
        return all(facts.nan_free(x) for facts, x in sources)

    def _is_above_minus_infinity(self, value: oir.Value) -> bool:
        sources = self._sources(value)
        if sources is None:
            return super()._is_above_minus_infinity(value)
        return all(facts.above_minus_infinity(x) for facts, x in sources)

    def _sources(self, value: oir.Value) -> list[tuple[Facts, oir.Value]] | None:
        """The values, with facts about them, of which a float input of a body or a result of a loop
        or branch is one; None for other values, and where they are not known."""
        node = value.producer()
        if node is not None:
            return self._sources_of_result(value, node) if node.op_type in _WITH_BODIES else None
        place = self._places.get(value)
        if place is None or value in self._any_floats or place[0].graph is None:
            return None
        node, body, index = place
        start = node.inputs[index]
        if start is None or self._depth == _DEEPEST:
            return None
        after = states_of(node, body).get(value)
        if after is None:
            return [(self, start)] if node.op_type == "Scan" else None
        return [(self, start), (self._of_any_floats_in(body), after)]

    def _sources_of_result(
        self, value: oir.Value, node: oir.Node
    ) -> list[tuple[Facts, oir.Value]] | None:
        index = value.index()
        assert index is not None
        if node.op_type == "If":
            return [(self, branch.outputs[index]) for branch in subgraphs(node)]
        if self._depth == _DEEPEST:
            return None
        (body,) = subgraphs(node)
        is_loop = node.op_type == "Loop"
        start = node.inputs[index + 2 * is_loop] if index < len(states_of(node, body)) else None
        last = (self._of_any_floats_in(body), body.outputs[index + is_loop])
        return [last] if start is None or self._has_a_trip(node) else [(self, start), last]

    def _of_any_floats_in(self, body: oir.Graph) -> LoopFacts:
        """Facts that hold in a body whatever its float states are."""
        if body not in self._of_any_floats:
            inner = self._of_any_floats[body] = self._assuming(body, {})
            inner._invariants, inner._tops = self._invariants, self._tops
            inner._any_floats = self._any_floats.union(body.inputs)
        return self._of_any_floats[body]

    def _has_a_trip(self, node: oir.Node) -> bool:
        """Whether a Loop or Scan makes at least one trip."""
        if node.op_type == "Scan":
            return bool(length_of_scan(node))
        most, going = node.inputs[:2]
        known = None if most is None else self.int_range(most)
        is_first_certain = going is None or self.truth(going) is True
        return is_first_certain and (most is None or (known is not None and known.low > 0))

    def _is_outer(self, node: oir.Node) -> bool:
        """Whether a node stands around the loop whose states have assumed ranges."""
        graph = node.graph
        while graph is not self._body and graph is not self._graph:
            owner = self._owners.get(graph) if isinstance(graph, oir.Graph) else None
            if owner is None:
                return False
            graph = owner.graph
        return graph is not self._body

    def _of_body_input(
        self, value: oir.Value, node: oir.Node, body: oir.Graph, index: int
    ) -> Range | None:
        if node.op_type == "Loop" and index == 0:
            return self._trip(node)
        states = states_of(node, body)
        if value in states:
            low, high = self._invariant(node, body)[value]
            return Range(low, min(high, self._tops.get(value, high)))
        given = node.inputs[index] if node.op_type == "Scan" else None
        return range_of_type(dtype_of(value)) if given is None else self.int_range(given)

    def _trip(self, loop: oir.Node) -> Range:
        """The range of the number of the trip."""
        count = loop.inputs[0]
        known = None if count is None else self.int_range(count)
        high = range_of_type(oir.DataType.INT64).high if known is None else known.high
        return Range(0, max(high - 1, 0))

    def _of_result(self, value: oir.Value, node: oir.Node) -> Range | None:
        """The range of a result, of any branch or trip."""
        index = value.index()
        assert index is not None
        if node.op_type == "If":
            ranges = [self.int_range(branch.outputs[index]) for branch in subgraphs(node)]
            return Range(*union([known for known in ranges if known is not None]))
        (body,) = subgraphs(node)
        states = states_of(node, body)
        if index < len(states):
            return self._invariant(node, body)[[*states][index]]
        return self.int_range(body.outputs[index + (node.op_type == "Loop")])

    def _invariant(self, node: oir.Node, body: oir.Graph) -> dict[oir.Value, Range]:
        """A range of each integer state that holds before and after every trip."""
        if node in self._invariants:
            return self._invariants[node]
        states = {x: out for x, out in states_of(node, body).items() if dtype_of(x) in INTEGERS}
        first = node.inputs[2:] if node.op_type == "Loop" else node.inputs
        given = dict(zip(states_of(node, body), first, strict=False))
        ranges = {x: range_of_type(dtype_of(x)) for x in states}
        if self._depth == _DEEPEST:
            return ranges
        starts = {x: self.int_range(y) for x in states if (y := given[x]) is not None}
        ranges |= {x: known for x, known in starts.items() if known is not None}
        counted = self._counters(node, body, states, given, ranges)
        ranges |= counted
        states = {x: after for x, after in states.items() if x not in counted}
        for left in reversed(range(_ROUNDS)):
            # No state leaves the range of its type.
            states = {x: y for x, y in states.items() if ranges[x] != range_of_type(dtype_of(x))}
            found = self._after_a_trip(body, ranges, states)
            if all(found[x].within(*ranges[x]) for x in states):
                break
            for x in states:
                if not found[x].within(*ranges[x]):
                    wider = union([ranges[x], found[x]]) if left > 1 else range_of_type(dtype_of(x))
                    ranges[x] = Range(*wider)
        else:
            ranges |= {x: range_of_type(dtype_of(x)) for x in states}
        self._invariants[node] = ranges
        return ranges

    def _counters(
        self,
        node: oir.Node,
        body: oir.Graph,
        states: Mapping[oir.Value, oir.Value],
        given: Mapping[oir.Value, oir.Value | None],
        starts: Mapping[oir.Value, Range],
    ) -> dict[oir.Value, Range]:
        """The ranges of the states to which every trip adds the same constant."""
        found: dict[oir.Value, Range] = {}
        is_loop = node.op_type == "Loop"
        trips = self._trip(node).high + 1 if is_loop else length_of_scan(node)
        going = body.outputs[0] if is_loop else None
        within = self._of_any_states(body, states, starts)
        for x, next_state in states.items():
            after, cap = unsaturated(x, next_state)
            step = step_of(x, after)
            if step is None or not trips:
                continue
            end = step * trips
            last = Range(starts[x].low + min(end, 0), starts[x].high + max(end, 0))
            top = last.high - max(step, 0)
            limit = limit_of_next(going, after, within) if step > 0 else None
            if limit is not None:
                begin = limit_of_next(node.inputs[1], given[x], self)
                most = starts[x].high if begin is None else min(starts[x].high, begin)
                top = min(top, max(most, limit))
                last = Range(starts[x].low, max(starts[x].high, top + step))
            lowest, highest = range_of_type(dtype_of(x))
            if last.within(lowest, highest if cap is None else min(highest, cap)):
                found[x], self._tops[x] = last, top
        return found

    def _of_any_states(
        self,
        body: oir.Graph,
        states: Mapping[oir.Value, oir.Value],
        starts: Mapping[oir.Value, Range],
    ) -> LoopFacts:
        """Facts that hold in every trip, before the ranges of the states are known.

        What the condition compares may depend on these states.
        """
        return self._assuming(body, {
            x: starts[x] if origin(after) is x else range_of_type(dtype_of(x))
            for x, after in states.items()
        })  # fmt: skip

    def _after_a_trip(
        self,
        body: oir.Graph,
        ranges: Mapping[oir.Value, Range],
        states: Mapping[oir.Value, oir.Value],
    ) -> dict[oir.Value, Range]:
        """The ranges of the next states, if those of the states are right."""
        inner = self._assuming(body, ranges)
        return {
            x: inner.int_range(after) or range_of_type(dtype_of(x)) for x, after in states.items()
        }

    def _assuming(self, body: oir.Graph, ranges: Mapping[oir.Value, Range]) -> LoopFacts:
        """The facts that follow if these ranges of the states of a body are right. What is around
        the loop does not depend on them."""
        inner = LoopFacts(self._graph)
        inner._places, inner._owners = self._places, self._owners
        inner._around, inner._body, inner._depth = self, body, self._depth + 1
        inner._assumed = {**self._assumed, **ranges}
        return inner
