"""Systems of differential equations: what a body computes row by row it computes of all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.type_inference import ValueType
from hlo2onnx.ir.values import const_number, dtype_of, shape_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import Trips, counted, origin, separate
from hlo2onnx.raising.rules.shapes.reshape import first
from hlo2onnx.raising.rules.shapes.slices import ranges_of
from hlo2onnx.raising.vectorize.constant_rows import COMPUTED, Making, constant_rows
from hlo2onnx.raising.vectorize.lanes import Applied, Numbers, Plan, Planner
from hlo2onnx.rewrite.replace import remove_makers

MOST_ROWS = 6
"""More rows are not tried in every order: a limit on compile time, no cost."""

MOST_NODES = 1000
"""Larger bodies are not searched: a limit on compile time, no cost."""


class SlpVectorize(Rule):
    """Loop(Concat(f(x[0]), g(x[1]))) -> Loop(h(Gather(x), Gather(x)))

    Legal where rows of a state, and of what the body makes of it by sums and products, are taken
    apart, computed with, and joined in as many rows: each lane of h does what its row did, and what
    it had not to do changes nothing (x - 0, x + -0, x * 1). Constants among the lanes are further
    rows of the state, which must come out of a trip as they went in: that is computed beforehand.
    Only for a number of trips that is known, for small rows, and where fewer nodes come of it.
    """

    name = "slp-vectorize"
    formerly = ("pack-rows",)
    anchors = frozenset({"Loop"})
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = counted(node)
        need(len(trips.body) <= MOST_NODES, "its body is large", node)
        most = b.costs.lane_elements
        for place, state in enumerate(trips.states):
            shape = static_shape(state)
            fits = shape and 1 < shape[0] <= MOST_ROWS and math.prod(shape[1:]) <= most
            if fits and dtype_of(state) in (oir.DataType.FLOAT, oir.DataType.DOUBLE):
                try:
                    region = _Region(trips, place, b.costs.join_nodes)
                except Refusal:
                    continue
                return _Packed(b, region).results()
        raise Refusal("no state has rows that are computed apart and joined", node)


class _Region:
    """What a trip makes of a state.

    Attributes:
        making: How each value follows from the state, in the order of making; the state follows
            from nothing.
        shape: Of each of them.
        constants: What becomes of the rows of constants that are added to it.

    Raises:
        Refusal: Something else is done to the rows, or it would not be faster.
    """

    def __init__(self, trips: Trips, place: int, join_nodes: float) -> None:
        self.trips = trips
        self.place = place
        self.state = trips.states[place]
        self.shape = static_shape(self.state) or ()
        self.making: dict[oir.Value, Making] = {}
        self._planner = Planner(self._row_of, self._is_computed)
        self._lanes: dict[oir.Node, None] = {}
        self._cost = 0.0
        self._visit(origin(trips.after[place]))
        need(self.state in self.making, "the state is not used", self.state)
        sliced = {first(node) for node in self._lanes if not self._is_computed(node)}
        stacks = [how for how in self.making.values() if not isinstance(how, tuple)]
        before = join_nodes * (len(sliced) + len(stacks))
        before += sum(map(self._is_computed, self._lanes))
        need(self._cost < before, "as many nodes would come of it", self.state)
        self._need_private()
        constants = constant_rows(self.making, self.state, origin(trips.after[place]))
        need(constants is not None, "rows of constants would not stay the same", self.state)
        assert constants is not None
        self.constants = constants

    def _row_of(self, value: oir.Value) -> tuple[oir.Value, int] | None:
        node = value.producer()
        if node is None or node.op_type != "Slice" or static_shape(first(node)) != self.shape:
            return None
        ranges = ranges_of(node)
        if ranges is None or list(ranges) != [0] or len(ranges[0]) != 1:
            return None
        return first(node), ranges[0].start

    def _is_computed(self, node: oir.Node) -> bool:
        return node.graph is self.trips.body and node.op_type in COMPUTED and not node.domain

    def _visit(self, value: oir.Value) -> None:
        """Notes how a value follows from the state."""
        if value in self.making:
            return
        need(static_shape(value) == self.shape, "it has another shape", value)
        node = value.producer()
        if value is self.state:
            self.making[value] = ()
            return
        need(node is not None and node.graph is self.trips.body, "another state is used", value)
        assert node is not None
        if node.op_type == "Concat":
            self.making[value] = self._planned(node)
            return
        need(self._is_computed(node), "it is no sum and no product", node)
        operands = [x for x in node.inputs if x is not None]
        for x in operands:
            if const_number(x) is None:
                self._visit(x)
        self.making[value] = tuple(operands)

    def _planned(self, stack: oir.Node) -> Plan:
        lanes = [x for x in stack.inputs if x is not None]
        row = (1, *self.shape[1:])
        is_stack = stack.attributes["axis"].as_int() == 0 and len(lanes) == self.shape[0]
        need(is_stack and all(static_shape(x) == row for x in lanes), "it joins others", stack)
        found = self._planner.plan(lanes)
        need(found is not None, "the rows are no sums and products of rows", stack)
        assert found is not None
        cost, plan = found
        self._cost += cost
        while lanes:
            maker = lanes.pop().producer()
            if maker is not None and maker not in self._lanes:
                self._lanes[maker] = None
                if self._is_computed(maker):
                    lanes += [x for x in maker.inputs if x is not None]
                else:
                    self._visit(first(maker))
        return plan

    def _need_private(self) -> None:
        """Nothing else may read the rows, or the state but for its stacks."""
        trips = self.trips
        known = {*self._lanes, *(x.producer() for x in self.making)}
        inner = [x for node in self._lanes for x in node.outputs]
        for x in (*inner, *self.making):
            others = [reader for reader in x.consumers() if reader not in known]
            is_copied = all(one.op_type == "Identity" for one in others)
            need(is_copied and not (x in inner and others), "something else reads it", x)
        returned = [k for k, x in enumerate(trips.body.outputs) if origin(x) in self.making]
        rows = range(1 + len(trips.states), len(trips.body.outputs))
        need(
            all(k in rows or k == 1 + self.place for k in returned),
            "another state is it",
            self.state,
        )
        need(not any(x.is_graph_output() for x in inner), "a row is returned", self.state)


class _Packed:
    """The loop whose state has rows of constants below its own."""

    def __init__(self, b: Rewriter, region: _Region) -> None:
        self._b = b
        self._region = region
        self._rows = region.constants.below[region.state]
        self._shape = (region.shape[0] + len(self._rows), *region.shape[1:])
        self._new: dict[oir.Value, oir.Value] = {}
        self._numbers: dict[bytes, oir.Value] = {}

    def results(self) -> list[oir.Value]:
        """What replaces the loop's outputs."""
        b, region, trips = self._b, self._region, self._region.trips
        initial, state = trips.initial, region.state
        if self._rows.size:
            below = self._constant(self._rows)
            initial[region.place] = b.concat([initial[region.place], below], 0)
        self._new[state] = b.value(state.name or "state", dtype_of(state), self._shape)
        for value, how in region.making.items():
            node = value.producer()
            if value is not state and node is not None:
                with b.before(node):
                    self._new[value] = (
                        b.op(node.op_type, *(self._new.get(x, x) for x in how))
                        if isinstance(how, tuple)
                        else self._planned(region.constants.plans[value])
                    )
        is_packed = [origin(x) in self._new for x in trips.body.outputs[1:]]
        outputs = self._outputs()
        types: list[ValueType] = [(dtype_of(x), shape_of(x)) for x in outputs]
        stacks = len(trips.states)
        types[stacks:] = [(dtype, (trips.count, *shape)) for dtype, shape in types[stacks:]]
        made = b.node("Loop", [trips.loop.inputs[0], None, *initial], {"body": trips.body}, types)
        own = [
            b.slice(x, [0], [region.shape[0]], axes=[int(k >= stacks)]) if packed else x
            for k, (x, packed) in enumerate(zip(made, is_packed, strict=True))
        ]
        return [separate(b, old, new) for old, new in zip(trips.loop.outputs, own, strict=True)]

    def _outputs(self) -> list[oir.Value]:
        """Makes the body carry and stack the new values; returns these."""
        b, region, body = self._b, self._region, self._region.trips.body
        old, new = list(body.outputs), list[oir.Value]()
        for output in old:
            value = self._new.get(origin(output), output)
            if value is self._new[region.state] or value in new:  # each output is a node's own
                with b.at_end(body):
                    value = b.Identity(value)
            new.append(value)
        body.outputs.clear()
        remove_makers(x for x in old if x not in new)
        body.inputs[2 + region.place] = self._new[region.state]
        body.outputs.extend(new)
        return new[1:]

    def _planned(self, plan: Plan) -> oir.Value:
        """The nodes of a plan."""
        b = self._b
        if isinstance(plan, Applied):
            return b.op(plan.op_type, self._planned(plan.left), self._planned(plan.right))
        if isinstance(plan, Numbers):
            return self._constant(np.array(plan.lanes, self._rows.dtype))
        x = self._new[plan.source]
        return x if plan.is_whole else b.Gather(x, b.i64(plan.places), axis=0)

    def _constant(self, rows: np.ndarray) -> oir.Value:
        """A constant of these rows in full: broadcasting a column takes longer."""
        if rows.tobytes() not in self._numbers:
            column = rows.reshape(-1, *(1 for _ in self._shape[1:]))
            full = np.broadcast_to(column, (len(rows), *self._shape[1:]))
            self._numbers[rows.tobytes()] = self._b.const(np.ascontiguousarray(full))
        return self._numbers[rows.tobytes()]
