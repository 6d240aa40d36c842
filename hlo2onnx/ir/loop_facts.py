"""Facts that hold in every trip of a loop: the ranges of values in bodies and of their results.

The range of an integer state is one that the body does not leave: it is assumed, and proven for one
trip. That of a counter follows from the trip count.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

import onnx_ir as oir

from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.op_families import RESHAPES
from hlo2onnx.ir.ranges import Range, range_of_type, union
from hlo2onnx.ir.replace import state_count
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.ir.values import INTEGERS, const_number, const_of, dtype_of, origin, shape_of

_ROUNDS: Final = 4
"""How often the ranges of the states may grow before they are those of their types."""
_DEEPEST: Final = 2
"""Depth of nested loops whose states are followed at a time."""
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
        states = _states_of(node, body)
        if value in states:
            low, high = self._invariant(node, body)[value]
            return Range(low, min(high, self._tops.get(value, high)))
        given = node.inputs[index] if node.op_type == "Scan" else None
        return range_of_type(dtype_of(value)) if given is None else self.int_range(given)

    def _trip(self, loop: oir.Node) -> Range:
        """The range of the trip number."""
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
        states = _states_of(node, body)
        if index < len(states):
            return self._invariant(node, body)[[*states][index]]
        return self.int_range(body.outputs[index + (node.op_type == "Loop")])

    def _invariant(self, node: oir.Node, body: oir.Graph) -> dict[oir.Value, Range]:
        """A range of each integer state that holds before and after every trip."""
        if node in self._invariants:
            return self._invariants[node]
        states = {x: out for x, out in _states_of(node, body).items() if dtype_of(x) in INTEGERS}
        first = node.inputs[2:] if node.op_type == "Loop" else node.inputs
        given = dict(zip(_states_of(node, body), first, strict=False))
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
            inner = self._assuming(body, ranges)
            found = {x: inner.int_range(y) or range_of_type(dtype_of(x)) for x, y in states.items()}
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
        trips = self._trip(node).high + 1 if is_loop else _length_of_scan(node)
        going = body.outputs[0] if is_loop else None
        # What the condition compares may depend on states whose ranges are not known yet.
        within = self._assuming(body, {
            x: starts[x] if origin(after) is x else range_of_type(dtype_of(x))
            for x, after in states.items()
        })  # fmt: skip
        for x, after in states.items():
            step = _step_of(x, after)
            if step is None or not trips:
                continue
            end = step * trips
            last = Range(starts[x].low + min(end, 0), starts[x].high + max(end, 0))
            top = last.high - max(step, 0)
            limit = _limit_of_next(going, after, within) if step > 0 else None
            if limit is not None:
                begin = _limit_of_next(node.inputs[1], given[x], self)
                most = starts[x].high if begin is None else min(starts[x].high, begin)
                top = min(top, max(most, limit))
                last = Range(starts[x].low, max(starts[x].high, top + step))
            if last.within(*range_of_type(dtype_of(x))):
                found[x], self._tops[x] = last, top
        return found

    def _assuming(self, body: oir.Graph, ranges: Mapping[oir.Value, Range]) -> LoopFacts:
        """The facts that follow if these ranges of the states of a body are right. What is around
        the loop does not depend on them."""
        inner = LoopFacts(self._graph)
        inner._places, inner._owners = self._places, self._owners
        inner._around, inner._body, inner._depth = self, body, self._depth + 1
        inner._assumed = {**self._assumed, **ranges}
        return inner


# -- counters: the states to which every trip adds a constant, and what ends their loops


def _limit_of_next(going: oir.Value | None, state: oir.Value | None, facts: Facts) -> int | None:
    """The largest state with which a Loop goes on: one below n where it is less than n."""
    pending, limits = [] if going is None else [going], []
    while pending:
        compare = pending.pop().producer()
        if compare is None:
            continue
        inputs = [x for x in compare.inputs if x is not None]
        if compare.op_type in ("And", "Identity"):
            pending += inputs
        elif compare.op_type in RESHAPES:  # of one element
            pending.append(inputs[0])
        elif compare.op_type in ("Less", "Greater"):
            low, high = inputs if compare.op_type == "Less" else inputs[::-1]
            known = facts.int_range(high) if state is not None and _is_same(low, state) else None
            limits += [] if known is None else [known.high - 1]
    return min(limits, default=None)


def _is_same(x: oir.Value, y: oir.Value) -> bool:
    """Whether two values are the same, or sums of the same operands."""
    first, second = x.producer(), y.producer()
    if x is y or first is None or second is None:
        return x is y
    is_sum = first.op_type == second.op_type == "Add"
    return is_sum and all(a is b for a, b in zip(first.inputs, second.inputs, strict=True))


def _step_of(x: oir.Value, after: oir.Value) -> int | None:
    """The constant that is added to a state; None for other states."""
    node = origin(after).producer()
    if node is None or node.op_type not in ("Add", "Sub"):
        return None
    first, second = node.inputs
    if node.op_type == "Add" and second is x:
        first, second = second, first
    array = None if second is None else const_of(second)
    if first is not x or array is None or array.size != 1:
        return None
    step = int(array.reshape(()))
    return step if node.op_type == "Add" else -step


def exact_trips(node: oir.Node) -> int | None:
    """The trip count of a Loop or Scan that nothing ends early, if it is known."""
    if node.op_type == "Scan":
        return _length_of_scan(node) or None
    (body,) = subgraphs(node)
    count, going = node.inputs[:2]
    number = None if count is None else const_number(count)
    if number is None or not _is_true(going) or number < 0:
        return None
    again = origin(body.outputs[0])
    return int(number) if again is body.inputs[1] or _is_true(again) else None


def _is_true(condition: oir.Value | None) -> bool:
    """Whether a condition of a loop is missing, or a constant that is true."""
    array = const_of(condition)
    return condition is None or (array is not None and bool(array.all()))


def _length_of_scan(scan: oir.Node) -> int:
    """The trip count of a Scan; 0 if it is not known."""
    count = scan.attributes["num_scan_inputs"].as_int()
    axes = scan.attributes.get("scan_input_axes")
    rows = scan.inputs[len(scan.inputs) - count]
    extent = None if rows is None else shape_of(rows)[0 if axes is None else axes.as_ints()[0]]
    return extent if isinstance(extent, int) else 0


def _states_of(node: oir.Node, body: oir.Graph) -> dict[oir.Value, oir.Value]:
    """The states of a Loop or Scan in its body, and those after the trip, in order."""
    count, is_loop = state_count(node), node.op_type == "Loop"
    inputs = body.inputs[2:] if is_loop else body.inputs
    return dict(zip(inputs[:count], body.outputs[int(is_loop) :], strict=False))
