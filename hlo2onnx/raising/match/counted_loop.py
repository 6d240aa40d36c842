"""Loops as rules see them: trips, states and stacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.dims import free_symbols, is_known, is_positive, is_static
from hlo2onnx.ir.notes import STACKED, hold_trip
from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.traversal import remove_node, replace_uses, subgraphs
from hlo2onnx.ir.values import Dim, const_ints, dtype_of, origin, shape_of
from hlo2onnx.raising.engine import Rewriter, need


@dataclass(frozen=True)
class Trips:
    """A Loop with a known trip count, or a known limit of it.

    Attributes:
        loop: The node.
        count: The trip count; 0 if it is not known.
        body: Its inputs are the trip number, the condition and the states; its outputs the
            condition, the states after the trip, and one row of each stack.
    """

    loop: oir.Node
    count: int
    body: oir.Graph

    @property
    def length(self) -> Dim:
        """The trip count, which may be symbolic: the extent of the stacks."""
        return self.count or shape_of(self.stacks[0])[0]

    @property
    def number(self) -> oir.Value:
        """The trip number, an int64 scalar."""
        return self.body.inputs[0]

    @property
    def states(self) -> list[oir.Value]:
        """The states at the start of a trip."""
        return list(self.body.inputs[2:])

    @property
    def after(self) -> list[oir.Value]:
        """The states at the end of a trip."""
        return list(self.body.outputs[1 : 1 + len(self.states)])

    @property
    def rows(self) -> list[oir.Value]:
        """What a trip adds to each stack."""
        return list(self.body.outputs[1 + len(self.states) :])

    @property
    def initial(self) -> list[oir.Value]:
        """The states before the first trip."""
        return [x for x in self.loop.inputs[2:] if x is not None]

    @property
    def final(self) -> list[oir.Value]:
        """The states after the last trip."""
        return list(self.loop.outputs[: len(self.states)])

    @property
    def stacks(self) -> list[oir.Value]:
        """The stacked outputs."""
        return list(self.loop.outputs[len(self.states) :])

    def is_outer(self, value: oir.Value | None) -> bool:
        """Whether the body reads a value that was made before the loop."""
        producer = None if value is None else value.producer()
        if producer is not None:
            return producer.graph is not self.body
        # A search among the inputs would take quadratic time.
        return value is None or not value.is_graph_input() or value.graph is not self.body

    def reads_row(self, node: oir.Node) -> bool:
        """Whether a node of the body reads this trip's row of a tensor made before the loop."""
        if node.op_type != "Gather" or node.domain or node.attributes.get_int("axis", 0) != 0:
            return False
        return node.inputs[1] is self.number and self.is_outer(node.inputs[0])


def counted(loop: oir.Node, symbolic: bool = False) -> Trips:
    """The parts of a Loop.

    Args:
        symbolic: Whether the trip count may be an extent.

    Raises:
        Refusal: The trip count is not known, or may be 0.
    """
    need(loop.op_type == "Loop", "it is not a Loop", loop)
    trips = const_ints(loop.inputs[0])
    body = loop.attributes["body"].as_graph()
    need(not has_condition(loop), "it has a condition", loop)
    parts = Trips(loop, trips[0] if trips else 0, body)
    known = parts.count or (symbolic and trips is None and bool(parts.stacks))
    need(known and is_positive(parts.length), "its trip count is not known", loop)
    return parts


def has_condition(loop: oir.Node) -> bool:
    """Whether a condition may end a Loop."""
    body = loop.attributes["body"].as_graph()
    return loop.inputs[1] is not None or origin(body.outputs[0]) is not body.inputs[1]


def has_one_shape(b: Rewriter, value: oir.Value) -> bool:
    """Whether a value of a body has the same shape in every trip, so that a loop can stack it.

    Its extents are numbers or follow from those of the model's inputs. Others may differ between
    trips, such as the length of a Slice up to a computed place.
    """
    dims = shape_of(value)
    if is_static(dims):
        return True
    if not is_known(dims):
        return False
    given = (dim for x in b.main_graph.inputs for dim in shape_of(x))
    return set(free_symbols(dims)) <= set(free_symbols(given))


def rebuilt(
    b: Rewriter, trips: Trips, stacks: Sequence[oir.Value], states: Sequence[int] | None = None
) -> tuple[list[oir.Value], list[oir.Value]]:
    """A Loop with the same body that carries and stacks other values.

    Args:
        stacks: Values of the body, to be stacked.
        states: Positions of the states that are kept; all by default.

    Returns:
        Its final states and its stacks; empty lists if there are neither.
    """
    kept = range(len(trips.states)) if states is None else states
    body, after = trips.body, trips.after
    initial = [trips.initial[k] for k in kept]
    if not initial and not stacks:
        release(trips.body)
        return [], []
    length = trips.length if stacks else 0  # the outputs of the loop are in order until here
    going = body.outputs[0]
    inputs = [trips.states[k] for k in kept]
    rows: list[oir.Value] = []
    body.outputs.clear()
    body.outputs.append(going)
    body.outputs.extend([after[k] for k in kept])
    for value in stacks:
        used = value in body.outputs or value in body.inputs or trips.is_outer(value)
        if used:  # an output may have one role only
            with b.at_end(body):
                value = b.Identity(value)
        rows.append(value)
        body.outputs.append(value)
    for k in reversed(range(len(trips.states))):
        if k not in kept:
            body.inputs.pop(2 + k)
    types = [(dtype_of(x), shape_of(x)) for x in inputs]
    types += [(dtype_of(x), (length, *shape_of(x))) for x in rows]
    loop = trips.loop
    made = b.node("Loop", [*loop.inputs[:2], *initial], {"body": body}, types)
    for row, stack in zip(stacks, made[len(kept) :], strict=True):
        hold_trip(trips.number, STACKED, row, stack)
    return made[: len(kept)], made[len(kept) :]


def release(body: oir.Graph) -> None:
    """Disconnects a dead body from the values that it captured."""
    body.outputs.clear()
    for node in reversed(list(body)):
        for inner in subgraphs(node):
            release(inner)
        remove_node(node)


def separate(b: Rewriter, old: oir.Value, new: oir.Value) -> oir.Value:
    """`new`, or a copy of it if `old` is an output of the model, which needs a value of its own."""
    return b.Identity(new) if old.is_graph_output() else new


def replace_value(old: oir.Value, new: oir.Value) -> None:
    """Makes the readers of `old` in a body read `new`.

    Removes the producer if it has no other outputs and no body of its own, which would have to
    release the values that it captured.
    """
    node = old.producer()
    if node is not None and len(node.outputs) == 1 and not subgraphs(node):
        replace(node, [new])
        return
    replace_uses(old, new)
