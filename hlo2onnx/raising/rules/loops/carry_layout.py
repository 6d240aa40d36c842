"""States whose columns are taken apart in the body are carried with the columns first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import onnx_ir as oir

from hlo2onnx.ir.op_families import BROADCASTING, UNARY
from hlo2onnx.ir.type_inference import ValueType
from hlo2onnx.ir.values import Dim, attributes_of, const_ints, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import Trips, counted, separate

_JOINING = frozenset({"Concat", "Slice", "Split"})
_ELEMENTWISE = UNARY | BROADCASTING | {"Identity"}


class CarryLayout(Rule):
    """Loop over a state (n, 3) -> Loop over its transpose (3, n)

    Legal where the body does nothing to the state, and to what follows from it, but elementwise
    operations, Slices, Splits and Concats, for a number of trips that is known and not 0. A column
    of (n, 3) is collected element by element, one of (3, n) is copied at once: systems of
    differential equations, stacked along the last axis, take three quarters of the time.
    """

    name = "carry-layout"
    formerly = ("columns-first",)
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = counted(node)
        for state in trips.states:
            if _has_columns(state, b.costs.leading_columns):
                try:
                    region = _Region(trips, state)
                except Refusal:
                    continue
                if region.takes_apart:
                    return _Turned(b, trips, region).results()
        raise Refusal("no state has columns that are taken apart", node)


def _has_columns(state: oir.Value, most: float) -> bool:
    shape = shape_of(state)
    if len(shape) < 2 or not isinstance(shape[-1], int):
        return False
    others = math.prod(dim for dim in shape[:-1] if isinstance(dim, int))
    return 1 < shape[-1] <= most and others >= 4 * shape[-1]


class _Region:
    """What follows from a state, and what that is computed with.

    Attributes:
        values: Those of the state's rank, in no order.
        nodes: Those that make them, but for rows of tensors from before the loop.
        takes_apart: Whether columns are cut out or joined.

    Raises:
        Refusal: Something else is done to them.
    """

    def __init__(self, trips: Trips, state: oir.Value) -> None:
        self._trips = trips
        self._rank = rank_of(state)
        self.values: set[oir.Value] = set()
        self.nodes: set[oir.Node] = set()
        self.takes_apart = False
        self._pending = [state]
        while self._pending:
            value = self._pending.pop()
            if value not in self.values:
                self._add(value)

    def _add(self, value: oir.Value) -> None:
        trips, node = self._trips, value.producer()
        need(rank_of(value) == self._rank, "a value has another rank", value)
        self.values.add(value)
        if value in trips.states:
            self._pending.append(trips.after[trips.states.index(value)])
        elif node is not None and not is_row(trips, node):
            self._add_node(node)
        for reader in value.consumers():
            need(reader.graph is trips.body, "a subgraph reads it", value)
            self._add_node(reader)
            self._pending += reader.outputs
        need(value is not trips.body.outputs[0], "it is the condition", value)
        pairs = zip(trips.after, trips.states, strict=True)
        self._pending += [before for after, before in pairs if after is value]

    def _add_node(self, node: oir.Node) -> None:
        """Legal for operators that act along single axes, or on single elements."""
        if node in self.nodes:
            return
        need(not node.domain, "nobody knows what the operator does", node)
        if node.op_type in _ELEMENTWISE:
            moved = list(node.inputs)
        else:
            need(node.op_type in _JOINING, "another operator reads it", node)
            moved = list(node.inputs if node.op_type == "Concat" else node.inputs[:1])
            axes = _axes(node, self._rank)
            self.takes_apart |= self._rank - 1 in axes
            others = [x for x in node.inputs if x not in moved]
            need(all(map(self._trips.is_outer, others)), "a range is not known", node)
        self.nodes.add(node)
        for x in moved:
            assert x is not None
            if not self._trips.is_outer(x) and not is_single(x):
                self._pending.append(x)


def _axes(node: oir.Node, rank: int) -> list[int]:
    """The axes along which an operator cuts or joins."""
    if node.op_type != "Slice":
        return [node.attributes.get_int("axis", 0) % rank]
    known = const_ints(node.inputs[3]) if len(node.inputs) > 3 else tuple(range(rank))
    need(known is not None, "its axes are not known", node)
    return [axis % rank for axis in known or ()]


def is_row(trips: Trips, node: oir.Node) -> bool:
    """Whether it takes this trip's row of a tensor from before the loop."""
    is_first = node.op_type == "Gather" and node.attributes.get_int("axis", 0) == 0
    if not is_first or node.domain:
        return False
    return node.inputs[1] is trips.number and trips.is_outer(node.inputs[0])


def is_single(value: oir.Value) -> bool:
    """Whether it is one element, which broadcasts in any layout."""
    return all(dim == 1 for dim in shape_of(value))


class _Turned:
    """The loop with the last axis of a region first."""

    def __init__(self, b: Rewriter, trips: Trips, region: _Region) -> None:
        self._b, self._trips, self._region = b, trips, region
        self._new: dict[oir.Value, oir.Value] = {}

    def results(self) -> list[oir.Value]:
        """What replaces the loop's outputs."""
        b, trips = self._b, self._trips
        states, rows = trips.states, trips.rows
        turned = [x in self._region.values for x in (*states, *rows)]
        initial = [
            self._turn(first) if turn else first
            for first, turn in zip(trips.initial, turned, strict=False)
        ]
        for state in states:
            if state in self._region.values:
                dims = self._dims(shape_of(state))
                self._new[state] = b.value(state.name or "state", dtype_of(state), dims)
        self._rebuild()
        body, loop = trips.body, trips.loop
        outputs = [self._new.get(x, x) for x in body.outputs]
        inputs = [self._new.get(x, x) for x in body.inputs]
        body.outputs.clear()
        for node in reversed(list(body)):
            if node in self._region.nodes or (
                is_row(trips, node) and node.outputs[0] in self._region.values
            ):
                body.remove(node, safe=True)
        body.inputs.clear()
        body.inputs.extend(inputs)
        body.outputs.extend(outputs)
        results = outputs[1:]
        types: list[ValueType] = [(dtype_of(x), shape_of(x)) for x in results[: len(states)]]
        types += [(dtype_of(x), (trips.count, *shape_of(x))) for x in results[len(states) :]]
        made = b.node("Loop", [loop.inputs[0], None, *initial], {"body": body}, types)
        back = [
            self._back(value, k >= len(states)) if turn else value
            for k, (value, turn) in enumerate(zip(made, turned, strict=True))
        ]
        return [separate(b, old, new) for old, new in zip(loop.outputs, back, strict=True)]

    def _turn(self, x: oir.Value) -> oir.Value:
        """The last axis first."""
        rank = rank_of(x)
        return self._b.transpose(x, [rank - 1, *range(rank - 1)])

    def _back(self, x: oir.Value, is_stack: bool) -> oir.Value:
        first = int(is_stack)
        rank = rank_of(x)
        return self._b.transpose(x, [*range(first), *range(first + 1, rank), first])

    def _dims(self, dims: Sequence[Dim]) -> tuple[Dim, ...]:
        return (dims[-1], *dims[:-1])

    def _rebuild(self) -> None:
        """Makes what the region's nodes make, turned."""
        trips, b = self._trips, self._b
        for node in list(trips.body):
            if is_row(trips, node) and node.outputs[0] in self._region.values:
                self._row(node)
            elif node in self._region.nodes:
                make = self._elementwise if node.op_type in _ELEMENTWISE else self._joining
                with b.before(node):
                    self._node(node, make)

    def _row(self, node: oir.Node) -> None:
        x, row = node.inputs[0], node.outputs[0]
        assert x is not None
        rank = rank_of(x)
        turned = self._b.transpose(x, [0, rank - 1, *range(1, rank - 1)])
        types = [(dtype_of(row), self._dims(shape_of(row)))]
        with self._b.before(node):
            taken = self._b.op("Gather", turned, self._trips.number, axis=0, types=types)
        self._new[row] = taken

    def _node(
        self,
        node: oir.Node,
        make: Callable[[oir.Node], tuple[list[oir.Value | None], dict[str, object]]],
    ) -> None:
        inputs, changed = make(node)
        types = [(dtype_of(x), self._dims(shape_of(x))) for x in node.outputs]
        made = self._b.node(node.op_type, inputs, attributes_of(node) | changed, types)
        self._new.update(zip(node.outputs, made, strict=True))

    def _elementwise(self, node: oir.Node) -> tuple[list[oir.Value | None], dict[str, object]]:
        rank = rank_of(node.outputs[0])
        return [self._operand(x, rank) for x in node.inputs], {}

    def _joining(self, node: oir.Node) -> tuple[list[oir.Value | None], dict[str, object]]:
        rank = rank_of(node.outputs[0])
        moved = [(axis + 1) % rank for axis in _axes(node, rank)]
        if node.op_type == "Concat":
            return [self._operand(x, rank) for x in node.inputs], {"axis": moved[0]}
        x = self._operand(node.inputs[0], rank)
        if node.op_type == "Split":
            return [x, *node.inputs[1:]], {"axis": moved[0]}
        axes = self._b.axes_beside(node.inputs[1], moved)
        return [x, *node.inputs[1:3], axes, *node.inputs[4:]], {}

    def _operand(self, x: oir.Value | None, rank: int) -> oir.Value:
        assert x is not None
        if x in self._new:
            return self._new[x]
        if is_single(x):
            return x
        with self._b.before(self._trips.loop):
            missing = rank - rank_of(x)
            return self._turn(self._b.unsqueeze(x, range(missing)))
