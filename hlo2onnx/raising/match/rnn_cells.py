"""Recurrent cells in the bodies of loops: matching and replacing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.dims import difference, fixed
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.type_inference import ValueType
from hlo2onnx.ir.values import dtype_of, origin, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, need, needed
from hlo2onnx.raising.match.activations import LOGISTIC, RELU, X
from hlo2onnx.raising.match.counted_loop import (
    Trips,
    rebuilt,
    release,
    replace_value,
    separate,
)
from hlo2onnx.raising.match.linear_terms import Part, Product, Sums, Term
from hlo2onnx.raising.match.rnn_weights import Gate, gate_of, inputs_of, stacked, vectors
from hlo2onnx.raising.match.views import extent_of, operands
from hlo2onnx.raising.patterns import Either, Op, Pattern, Sum, match


@dataclass(frozen=True)
class Cell:
    """A recurrent cell found in a body.

    Attributes:
        state: The position of the state among the states.
        memory: The position of the cell state of an LSTM.
        gates: In ONNX's order.
        attributes: The operator's attributes.
    """

    op_type: str
    state: int
    memory: int | None
    gates: tuple[Gate, ...]
    attributes: dict[str, object]

    @property
    def op_key(self) -> str:
        """The operator's key in the tables of targets."""
        before = "linear_before_reset"
        return f"{self.op_type}[{before}=1]" if before in self.attributes else self.op_type


class Reader:
    """Looks for a cell in a body.

    Args:
        trips: The loop.
        state: The position of the state that is multiplied with the recurrent matrix.
    """

    def __init__(self, trips: Trips, state: int) -> None:
        self.trips = trips
        self.sums = Sums(trips)
        self.state = trips.states[state]
        extent = extent_of(self.state, -1) if rank_of(self.state) in (1, 2) else None
        self.width = needed(extent, "the state is not a batch of vectors", self.state)

    def part(self, value: oir.Value) -> Part:
        """All features of a value."""
        whole = self.sums.whole(value)
        need(whole is not None and whole.high == self.width, "it is not a state", value)
        assert whole is not None
        return self.sums.stripped(whole)

    def under(self, part: Part, op_type: str) -> Part | None:
        """The operand of an activation."""
        part = self.sums.stripped(part)
        if self.trips.is_outer(part.value):
            return None
        found = match(_UNDER[op_type], part.value)
        if found is None or shape_of(found["x"]) != shape_of(part.value):
            return None
        x = found["x"]
        return self.sums.stripped(Part(x, part.axis, part.low, part.high))

    def operands(self, part: Part, op_type: str) -> tuple[Part, Part] | None:
        """The operands of a sum, difference or product of two values of the body."""
        node = part.value.producer()
        is_one = node is not None and node.op_type == op_type and part.high - part.low == self.width
        if node is None or not is_one or self.trips.is_outer(part.value):
            return None
        left, right = operands(node)
        if shape_of(left) != shape_of(part.value) or shape_of(right) != shape_of(part.value):
            return None
        first, second = (
            self.sums.stripped(Part(x, part.axis, part.low, part.high)) for x in (left, right)
        )
        return first, second

    def both(self, part: Part, op_type: str) -> Iterator[tuple[Part, Part]]:
        """The operands in both orders."""
        pair = self.operands(part, op_type)
        if pair is not None:
            yield pair
            yield pair[1], pair[0]

    def is_state(self, part: Part, state: oir.Value | None = None) -> bool:
        """Whether the part is the state before the trip."""
        of = self.state if state is None else state
        whole = Part(of, rank_of(of) - 1, 0, self.width)
        return part == whole

    def recurrent(self, terms: Sequence[Term]) -> tuple[Product, list[Term]]:
        """The product with the state, and the other terms.

        Raises:
            Refusal: There is none, or there are several.
        """
        products = [
            term for term in terms if isinstance(term, Product) and self.is_state(term.left)
        ]
        need(len(products) == 1, "a gate has no product with the state, or several", self.state)
        return products[0], [term for term in terms if term is not products[0]]

    def gate(self, part: Part | None, sign: int = 1) -> Gate:
        """A gate before its activation, or its negative."""
        part = needed(part, "a gate has another activation", self.state)
        product, others = self.recurrent(list(self.sums.terms(part)))
        return gate_of(self.sums, others, product, sign=sign)


_LOGISTIC = Op("Reciprocal", Sum(1.0, Op("Exp", Op("Neg", X))))
_UNDER: Mapping[str, Pattern] = {
    "Relu": RELU,
    "Sigmoid": Either(Op("Sigmoid", X), LOGISTIC, _LOGISTIC),
    "Tanh": Op("Tanh", X),
}
"""The expressions of activations."""


class Replacement:
    """A cell's operator, and the rest of the loop.

    Raises:
        Refusal: The cell state has other readers, or the inputs of its gates differ.
    """

    def __init__(self, b: Rewriter, trips: Trips, cell: Cell) -> None:
        self._b, self._trips, self._cell = b, trips, cell
        self._shape = shape_of(trips.states[cell.state])
        self._own = {k for k in (cell.state, cell.memory) if k is not None}
        self._before = trips.states[cell.state]
        self._after = trips.after[cell.state]

    def results(self) -> list[oir.Value]:
        """The values that replace the loop's outputs."""
        b, trips = self._b, self._trips
        rows = [origin(row) for row in trips.rows]
        mine = [row in (self._before, self._after) for row in rows]
        count = len(trips.states)
        rest = [k for k in range(count) if k not in self._own]
        live = self._live(rest)
        self._check(live)
        stack, *final = self._operator()
        finals = dict(zip((self._cell.state, self._cell.memory), final, strict=False))
        before = self._stack_before(stack) if self._before in (*rows, *live) else None
        left: list[oir.Value] = []
        others: list[oir.Value] = []
        if rest or not all(mine):
            self._read(self._after, stack)
            if before is not None:
                self._read(self._before, before)
            kept = [row for row, own in zip(trips.rows, mine, strict=True) if not own]
            left, others = rebuilt(b, trips, kept, rest)
        else:
            release(trips.body)
        states = dict(zip(rest, left, strict=True))
        states.update((k, value) for k, value in finals.items() if k is not None)
        made = iter(others)
        stacks = [
            (before if row is self._before else stack) if own else next(made)
            for row, own in zip(rows, mine, strict=True)
        ]
        values = [*(states[k] for k in range(count)), *stacks]
        pairs = zip(trips.loop.outputs, values, strict=True)
        return [separate(b, old, value) for old, value in pairs if value is not None]

    def _live(self, rest: Sequence[int]) -> set[oir.Value]:
        """The values that the rest of the body needs, given the state of the cell."""
        trips = self._trips
        pending = [trips.after[k] for k in rest]
        pending += [row for row in trips.rows if origin(row) not in (self._before, self._after)]
        live: set[oir.Value] = set()
        while pending:
            value = pending.pop()
            node = value.producer()
            if value in live or trips.is_outer(value):
                continue
            live.add(value)
            if value is not self._after and node is not None:
                pending += operands(node)
                for graph in subgraphs(node):
                    inner = (x for each in graph.all_nodes() for x in each.inputs)
                    pending += [x for x in (*inner, *graph.outputs) if x is not None]
        return live

    def _check(self, live: set[oir.Value]) -> None:
        memory = self._cell.memory
        if memory is not None:
            used = {self._trips.states[memory], self._trips.after[memory]} & live
            need(not used, "the cell state has other readers", self._trips.loop)

    def _stack_before(self, stack: oir.Value) -> oir.Value:
        """The states at the start of each trip."""
        first = self._b.unsqueeze(self._trips.initial[self._cell.state], [0])
        but_last = (difference(self._trips.length, 1), *self._shape)
        bounds = (self._b.i64([0]), self._b.i64([-1]), self._b.i64([0]))
        earlier = self._b.op("Slice", stack, *bounds, types=[(dtype_of(stack), but_last)])
        return self._b.concat([first, earlier], 0)

    def _read(self, value: oir.Value, stack: oir.Value) -> None:
        """Makes the body read a state from the stack."""
        trips, node = self._trips, value.producer()
        types = [(dtype_of(value), self._shape)]
        with self._b.before(node if node is not None else trips.body[0]):
            row = self._b.op("Gather", stack, trips.number, axis=0, types=types)
        if node is None:
            oir.convenience.replace_all_uses_with(value, row)
        else:
            replace_value(value, row)

    # -- the operator ---------------------------------------------------------------------------

    def _operator(self) -> list[oir.Value]:
        b, trips, cell = self._b, self._trips, self._cell
        gates, (width,) = cell.gates, fixed(self._shape[-1:])
        x = inputs_of(b, gates)
        signs = [gate.sign for gate in gates]
        products = [(gate.inputs, gate.recurrent) for gate in gates]
        of_inputs = [first.sign * sign for (first, _), sign in zip(products, signs, strict=True)]
        of_state = [last.sign * sign for (_, last), sign in zip(products, signs, strict=True)]
        weights = stacked(b, [first.matrix for first, _ in products], of_inputs)
        recurrent = stacked(b, [last.matrix for _, last in products], of_state)
        biases = [gate.biases for gate in gates] + [gate.recurrent_biases for gate in gates]
        bias = vectors(b, biases, signs * 2, width, x)
        if bias is not None:
            bias = b.unsqueeze(bias, [0])
        inputs = [x, weights, recurrent, bias, None, self._initial(cell.state)]
        if cell.memory is not None:
            inputs.append(self._initial(cell.memory))
        while inputs[-1] is None:
            inputs.pop()
        batch = self._shape[0] if len(self._shape) == 2 else 1
        dtype = dtype_of(self._before)
        types: list[ValueType] = [(dtype, (trips.length, 1, batch, width))]
        types += [(dtype, (1, batch, width))] * len(self._own)
        attributes = {"hidden_size": width, **cell.attributes}
        stack, *final = b.node(cell.op_type, inputs, attributes, types)
        dropped = [1] if len(self._shape) == 2 else [1, 2]
        axes = [axis - 1 for axis in dropped]
        return [b.squeeze(stack, dropped), *(b.squeeze(value, axes) for value in final)]

    def _initial(self, state: int) -> oir.Value | None:
        """An initial state; None if it is 0."""
        value = self._trips.initial[state]
        known = self._b.facts.constant(value)
        if known is not None and not known.any():
            return None
        return self._b.unsqueeze(value, [0] if len(self._shape) == 2 else [0, 1])
