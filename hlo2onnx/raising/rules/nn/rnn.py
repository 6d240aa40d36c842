"""Loops over recurrent cells -> LSTM, GRU and RNN."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, origin, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.activations import X
from hlo2onnx.raising.match.counted_loop import Trips, counted
from hlo2onnx.raising.match.linear_terms import Bias, Other, Part, Product
from hlo2onnx.raising.match.rnn_cells import Cell, Reader, Replacement
from hlo2onnx.raising.match.rnn_weights import Gate, gate_of
from hlo2onnx.raising.patterns import Op, match


class RecurrentRule(Rule):
    """The base of the rules for LSTM, GRU and RNN: finds a cell in a loop."""

    anchors = frozenset({"Loop"})

    @abstractmethod
    def cell(self, trips: Trips, state: int) -> Cell:
        """The cell with this state.

        Raises:
            Refusal: There is none.
        """

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = counted(node, symbolic=True)
        for state in range(len(trips.states)):
            try:
                cell = self.cell(trips, state)
            except Refusal:
                continue
            dtype = dtype_of(trips.states[state])
            need(b.supports(cell.op_key, dtype), "the target has no such operator", node)
            return Replacement(b, trips, cell).results()
        raise Refusal("no state belongs to such a cell", node)


class Lstm(RecurrentRule):
    """Loop(c = f * c + i * g; h = o * tanh(c)) -> LSTM

    Legal if i, f and o are sigmoids, and g the tanh, of sums of a product of this trip's inputs, a
    product of h, and biases. Nothing else may read c between trips. h may be stacked, and the rest
    of the body may read it; that stays a loop over the stack of h. Kernels of LSTM may give numbers
    where an input is NaN.
    """

    name = "lstm"
    drops_nan = True

    def cell(self, trips: Trips, state: int) -> Cell:
        reader = Reader(trips, state)
        after = reader.part(trips.after[state])
        for output, activated in reader.both(after, "Mul"):
            memory = reader.under(activated, "Tanh")
            if memory is None:
                continue
            memories = {trips.states[k]: k for k in range(len(trips.states)) if k != state
                        and reader.is_state(memory, origin(trips.after[k]))}  # fmt: skip
            for kept, added in reader.both(memory, "Add"):
                for forget, old in reader.both(kept, "Mul"):
                    k = memories.get(old.value)
                    if k is None or not reader.is_state(old, trips.states[k]):
                        continue
                    for entered, new in reader.both(added, "Mul"):
                        candidate = reader.under(new, "Tanh")
                        if candidate is None:
                            continue
                        sigmoids = [reader.under(x, "Sigmoid") for x in (entered, output, forget)]
                        gates = [reader.gate(x) for x in (*sigmoids, candidate)]
                        return Cell("LSTM", state, k, tuple(gates), {})
        raise Refusal("it is not an LSTM", trips.loop)


class Gru(RecurrentRule):
    """Loop(h = (1 - z) * n + z * h) -> GRU

    Legal if z and r are sigmoids of sums of a product of this trip's inputs, a product of h, and
    biases, and n is the tanh of such a sum in which r multiplies h, or its product and biases. h
    may be stacked, and the rest of the body may read it; that stays a loop over the stack of h. n +
    z * (h - n) is the same, and z may be 1 - z. Kernels of GRU may give numbers where an input is
    NaN.
    """

    name = "gru"
    drops_nan = True

    def cell(self, trips: Trips, state: int) -> Cell:
        reader = Reader(trips, state)
        for update, new, sign in self._mixed(reader, reader.part(trips.after[state])):
            candidate = reader.under(new, "Tanh")
            logit = reader.under(update, "Sigmoid")
            if candidate is None or logit is None:
                continue
            reset, hidden, after = self._candidate(reader, candidate)
            gates = (reader.gate(logit, sign), reader.gate(reset), hidden)
            attributes: dict[str, object] = {"linear_before_reset": 1} if after else {}
            return Cell("GRU", state, None, gates, attributes)
        raise Refusal("it is not a GRU", trips.loop)

    def _mixed(self, reader: Reader, after: Part) -> Iterator[tuple[Part, Part, int]]:
        """The gate, the candidate, and 1, or -1 if the gate multiplies the candidate."""
        for first, second in reader.both(after, "Add"):
            for scaled, new in reader.both(first, "Mul"):
                for gate, old in reader.both(second, "Mul"):
                    if reader.is_state(old) and self._rest_of(reader, scaled) == gate:
                        yield gate, new, 1
                    if reader.is_state(old) and self._rest_of(reader, gate) == scaled:
                        yield scaled, new, -1
            for gate, step in reader.both(second, "Mul"):
                pair = reader.operands(step, "Sub")
                if pair is not None and pair[1] == first and reader.is_state(pair[0]):
                    yield gate, first, 1
                if pair is not None and pair[1] == first and reader.is_state(first):
                    yield gate, pair[0], -1

    def _rest_of(self, reader: Reader, part: Part) -> Part | None:
        """x of 1 - x."""
        found = match(Op("Sub", 1.0, X), part.value)
        if found is None or shape_of(found["x"]) != shape_of(part.value):
            return None
        x = found["x"]
        return reader.sums.stripped(Part(x, part.axis, part.low, part.high))

    def _candidate(self, reader: Reader, part: Part) -> tuple[Part | None, Gate, bool]:
        """The reset gate, the candidate's sum, and whether the gate multiplies the product."""
        terms = list(reader.sums.terms(part))
        for term in terms:
            others = [other for other in terms if other is not term]
            if isinstance(term, Product):
                for reset, old in reader.both(term.left, "Mul"):
                    if reader.is_state(old):
                        hidden = gate_of(reader.sums, others, term)
                        return reader.under(reset, "Sigmoid"), hidden, False
            if isinstance(term, Other) and term.sign == 1:
                for reset, product in reader.both(term.part, "Mul"):
                    logit = reader.under(reset, "Sigmoid")
                    if logit is None:
                        continue
                    inner, added = reader.recurrent(list(reader.sums.terms(product)))
                    biases = [bias for bias in added if isinstance(bias, Bias)]
                    need(len(biases) == len(added), "the gate multiplies another value", part.value)
                    return logit, gate_of(reader.sums, others, inner, biases), True
        raise Refusal("the candidate is not the sum of a GRU", part.value)


class Rnn(RecurrentRule):
    """Loop(h = tanh(x @ W + h @ R + b)) -> RNN, likewise with relu

    Legal if the sum has a product of this trip's inputs and a product of h. h may be stacked, and
    the rest of the body may read it; that stays a loop over the stack of h. Done if the target's
    kernel is not slower than its Loop.
    """

    name = "rnn"

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        need(not b.target.flags.slow_rnn, "the kernel is slower than the loop", node)
        return super().rewrite(node, b)

    def cell(self, trips: Trips, state: int) -> Cell:
        reader = Reader(trips, state)
        after = reader.part(trips.after[state])
        for activation in ("Tanh", "Relu"):
            inner = reader.under(after, activation)
            if inner is not None:
                attributes: dict[str, object] = {}
                if activation == "Relu":
                    attributes["activations"] = [activation]
                return Cell("RNN", state, None, (reader.gate(inner),), attributes)
        raise Refusal("it is not an RNN", trips.loop)
