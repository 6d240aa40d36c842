"""The direction of recurrent operators: over reversed inputs, and two over the same inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import Dim, attributes_of, dtype_of, is_constant, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    RESHAPES,
    first,
    is_private,
    maker_of,
    ranges_of,
    reshaped,
    source_of,
    unshaped,
)
from hlo2onnx.raising.rules.shapes.slices import flipped_axes

_OPERATORS = ("GRU", "LSTM", "RNN")
_SOURCES = {"Slice": RESHAPES | set(_OPERATORS)}
_TURNED = {"forward": "reverse", "reverse": "forward"}
_SHARED = (0, 4)
"""Inputs that are the same for both directions: x and the lengths of sequences."""


class RnnFinalState(Rule):
    """Slice(LSTM(x)) of the last state -> the second output of LSTM, likewise for GRU and RNN

    Legal for sequences without lengths. Against the time, the last state is the first of the stack.
    """

    name = "rnn-final-state"
    anchors = frozenset({"Slice"})
    sources = frozenset(_OPERATORS) | RESHAPES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        rnn, stack = _reader(first(node))
        need(len(rnn.outputs) > 1, "the operator does not return its final state", rnn)
        count = shape_of(stack)[0]
        need(isinstance(count, int), "the number of states is not known", rnn)
        assert isinstance(count, int)
        last = {"forward": count - 1, "reverse": 0}.get(_direction(rnn), -1)
        need(ranges_of(node) == {0: range(last, last + 1)}, "it is not the last state", node)
        return reshaped(node, b, rnn.outputs[1])


class RnnDirection(Rule):
    """reverse(LSTM(reverse(x))) -> LSTM(x, direction="reverse"), likewise for GRU and RNN

    Legal if both reverse the time, nothing else reads the stack of states, and nothing reads the
    final ones. Also if nothing reads the stack.
    """

    name = "rnn-direction"
    anchors = frozenset({"Slice", *_OPERATORS})
    sources = _SOURCES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value | Sequence[oir.Value]:
        if node.op_type in _OPERATORS:
            stack = node.outputs[0]
            is_read = stack.uses() or stack.is_graph_output()
            need(not is_read, "the stack of states is read", node)
            return _turned(node, b)
        need(flipped_axes(node) == (0,), "it does not reverse the first axis", node)
        rnn, _ = _reader(first(node))
        need(_only_output(rnn, first(node)) == 0, "the states have other readers", rnn)
        return reshaped(node, b, _turned(rnn, b)[0])


def _reader(view: oir.Value) -> tuple[oir.Node, oir.Value]:
    """The operator whose stack of states this is, and the stack.

    Raises:
        Refusal: It is something else, the sequences have lengths, or the first axis of the view is
            not the time.
    """
    stack = unshaped(view)
    rnn = needed(maker_of(stack, *_OPERATORS), "it is not an output of a recurrent operator", view)
    need(stack is rnn.outputs[0], "it holds only the final states", view)
    need(_lengths(rnn) is None, "the sequences have lengths", rnn)
    need(_units_moved(stack, view), "the first axis is not the time", view)
    return rnn, stack


def _turned(rnn: oir.Node, b: Rewriter) -> list[oir.Value]:
    """The outputs of the operator in the other direction, over x as it was before a reversal.

    Raises:
        Refusal: x is not reversed, or the operator has both directions.
    """
    direction = _TURNED.get(_direction(rnn))
    need(direction is not None, "it has both directions", rnn)
    need(_lengths(rnn) is None, "the sequences have lengths", rnn)
    x = _before_reversal(first(rnn), b)
    types = [(dtype_of(each), shape_of(each)) for each in rnn.outputs]
    attributes = attributes_of(rnn) | {"direction": direction}
    return b.node(rnn.op_type, [x, *rnn.inputs[1:]], attributes, types)


def _before_reversal(x: oir.Value, b: Rewriter) -> oir.Value:
    """x with the first axis reversed, where that drops a Slice.

    Raises:
        Refusal: It is not reversed.
    """
    transpose = maker_of(x, "Transpose")
    perm = None if transpose is None else list(transpose.attributes["perm"].as_ints())
    cut = needed(
        maker_of(x if transpose is None else first(transpose), "Slice"), "x is not reversed", x
    )
    time = 0 if perm is None else perm[0]
    need(flipped_axes(cut) == (time,), "x is not reversed in time", cut)
    return first(cut) if perm is None else b.transpose(first(cut), perm)


class BidirectionalRnn(Rule):
    """Concat(LSTM(x), LSTM(x, direction="reverse")) -> LSTM(x, direction="bidirectional"), likewise
    for GRU and RNN

    Legal for a Concat of all states, or of the final ones, along the features, if nothing else
    reads the results of both operators. They must have equal attributes, and both or none must have
    biases and initial states.
    """

    name = "bidirectional-rnn"
    anchors = frozenset({"Concat"})
    sources = frozenset(_OPERATORS) | RESHAPES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(len(node.inputs) == 2, "it does not join two tensors", node)
        joined = [x for x in node.inputs if x is not None]
        makers = [maker_of(unshaped(x), *_OPERATORS) for x in joined]
        forward, backward = (needed(maker, "a part is not a state", node) for maker in makers)
        same = forward.op_type == backward.op_type and _plain(forward) == _plain(backward)
        need(same, "the operators differ", node)
        order = [_direction(forward), _direction(backward)]
        need(order == ["forward", "reverse"], "it does not join forward and backward", node)
        place = _only_output(forward, joined[0])
        need(place in (0, 1), "the states have other readers, or they are cell states", forward)
        need(place == _only_output(backward, joined[1]), "the states have other readers", backward)
        last = rank_of(joined[0]) - 1
        is_last = node.attributes["axis"].as_int() % (last + 1) == last
        need(is_last, "it joins along another axis", node)
        for x in joined:
            need(_units_moved(unshaped(x), x), "the last axis is not that of the features", x)
        states = _both(forward, backward, b)[place or 0]
        # (time, directions, batch, features), or without the time
        perm = (0, 2, 1, 3) if place == 0 else (1, 0, 2)
        return reshaped(node, b, b.transpose(states, perm))


def _both(forward: oir.Node, backward: oir.Node, b: Rewriter) -> list[oir.Value]:
    """The outputs of one operator for both directions."""
    pairs = list(zip(forward.inputs, backward.inputs, strict=False))
    need(len(forward.inputs) == len(backward.inputs), "one has more operands", backward)
    inputs: list[oir.Value | None] = []
    for place, (one, other) in enumerate(pairs):
        need((one is None) == (other is None), "one has more operands", backward)
        if one is None or other is None or place in _SHARED:
            need(one is other, "they have different inputs", backward)
            inputs.append(one)
        else:
            inputs.append(_joined(one, other, b))
    attributes = attributes_of(forward) | {"direction": "bidirectional"}
    if "activations" in attributes:
        attributes["activations"] = 2 * list(attributes["activations"])
    types = [
        (dtype_of(each), tuple(_two_directions(shape_of(each), shape_of(forward.outputs[0]))))
        for each in forward.outputs
    ]
    return b.node(forward.op_type, inputs, attributes, types)


def _two_directions(dims: Sequence[Dim], stack: Sequence[Dim]) -> Sequence[Dim]:
    """The shape of an output for both directions; `stack` is that of the first output."""
    return (dims[0], 2, *dims[2:]) if len(dims) == len(stack) else (2, *dims[1:])


def _joined(one: oir.Value, other: oir.Value, b: Rewriter) -> oir.Value:
    """Weights or initial states of both directions."""
    if is_constant(one) and is_constant(other):
        return b.derived(lambda *arrays: np.concatenate(arrays), one, other)
    return b.concat([one, other], 0)


def _direction(rnn: oir.Node) -> str:
    return rnn.attributes.get_string("direction", "forward")


def _plain(rnn: oir.Node) -> dict[str, object]:
    """The attributes besides the direction."""
    return {name: item for name, item in attributes_of(rnn).items() if name != "direction"}


def _lengths(rnn: oir.Node) -> oir.Value | None:
    return rnn.inputs[4] if len(rnn.inputs) > 4 else None


def _only_output(rnn: oir.Node, value: oir.Value) -> int | None:
    """Which output a value is, perhaps reshaped, if it has one reader and nothing reads another
    output; else None."""
    place = list(rnn.outputs).index(unshaped(value))
    others = (each for each in rnn.outputs if each is not unshaped(value))
    if any(each.uses() or each.is_graph_output() for each in others):
        return None
    view: oir.Value | None = value
    while view is not None and is_private(view):
        if view is unshaped(value):
            return place
        view = source_of(view, "Reshape", "Squeeze", "Unsqueeze")
    return None


def _units_moved(stack: oir.Value, view: oir.Value) -> bool:
    """Whether a view only drops or adds axes of extent 1, not the first or last of it."""
    before, after = ([dim for dim in shape_of(x) if dim != 1] for x in (stack, view))
    own = shape_of(view)
    ends = own[:1] == shape_of(stack)[:1] or rank_of(stack) == 3
    return before == after and ends and own[-1:] == shape_of(stack)[-1:]
