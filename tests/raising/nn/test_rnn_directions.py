"""The direction of recurrent operators, on small graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules.nn.rnn_directions import (
    BidirectionalRnn,
    RnnDirection,
    RnnFinalState,
)

T, N, D, H = 5, 2, 3, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
X = np.random.default_rng(0).normal(size=(T, N, D)).astype(np.float32)
INPUT = {"x": X}


def flipped(b: GraphBuilder, x: oir.Value, axis: int = 0) -> oir.Value:
    return b.slice(x, [-1], [INT64_MIN], [-1], [axis])


def states(
    b: GraphBuilder,
    x: oir.Value,
    direction: str = "forward",
    op_type: str = "LSTM",
    bias: bool = True,
    lengths: oir.Value | None = None,
    initial: oir.Value | None = None,
    **attributes: Any,
) -> list[oir.Value]:
    """All outputs of an operator with weights of its own."""
    rng = np.random.default_rng(direction == "reverse")
    rows, gates = GATES[op_type] * H, 2 if direction == "bidirectional" else 1

    def weights(*dims: int) -> oir.Value:
        return b.const(rng.normal(size=(gates, *dims)).astype(np.float32))

    inputs = [x, weights(rows, D), weights(rows, H), weights(2 * rows) if bias else None]
    inputs += [lengths, initial]
    while inputs[-1] is None:
        inputs.pop()
    count = 2 + (op_type == "LSTM")
    types = [(oir.DataType.FLOAT, (T, gates, N, H))]
    types += [(oir.DataType.FLOAT, (gates, N, H))] * (count - 1)
    given = {"hidden_size": H, "direction": direction} | attributes
    return b.node(op_type, inputs, given, types)  # type: ignore[no-any-return]


def stack(b: GraphBuilder, x: oir.Value, *args: Any, **options: Any) -> oir.Value:
    return b.squeeze(states(b, x, *args, **options)[0], [1])


def against(b: GraphBuilder, x: oir.Value, **options: Any) -> oir.Value:
    """The states over reversed inputs, in the order of the inputs."""
    return flipped(b, stack(b, flipped(b, x), **options))


def rewritten(build: Build, *rules: Rule, **options: Any) -> Rewrite:
    return Rewrite(build, INPUT, *rules, tolerance=1e-6, **options)


# -- one direction -------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("op_type", GATES)
def test_both_are_reversed(op_type: str, direction: str) -> None:
    found = rewritten(
        lambda b, x: against(b, x, op_type=op_type, direction=direction), RnnDirection()
    )
    found.gives(op_type, "Reshape")
    (node,) = (n for n in found.model.graph if n.op_type == op_type)
    assert node.attributes.get_string("direction") != direction


def test_the_time_behind_the_batch() -> None:
    """A Transpose stands between the reversal and the operator."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        turned = flipped(b, b.transpose(x, (1, 0, 2)), 1)
        return flipped(b, stack(b, b.transpose(turned, (1, 0, 2))))

    rewritten(build, RnnDirection()).gives("Transpose", "Transpose", "LSTM", "Reshape")


def test_only_the_final_state_is_read() -> None:
    found = rewritten(lambda b, x: states(b, flipped(b, x))[1:], RnnDirection())
    found.gives("LSTM")


@pytest.mark.parametrize(("direction", "last"), [("forward", T - 1), ("reverse", 0)])
def test_final_states(direction: str, last: int) -> None:
    def build(b: GraphBuilder, x: oir.Value, place: int = last) -> oir.Value:
        return b.slice(stack(b, x, direction), [place], [place + 1], axes=[0])

    rewritten(build, RnnFinalState()).gives("LSTM")
    other = T - 1 - last
    assert not fires(lambda b, x: build(b, x, other), INPUT, RnnFinalState())


def lengths(b: GraphBuilder) -> oir.Value:
    return b.const(np.array([T, 3], np.int32))


NO_DIRECTION: dict[str, Build] = {
    "inputs in order": lambda b, x: flipped(b, stack(b, x)),
    "states in order": lambda b, x: stack(b, flipped(b, x)),
    "images reversed": lambda b, x: flipped(b, stack(b, flipped(b, x, 1))),
    "features reversed": lambda b, x: flipped(b, stack(b, flipped(b, x)), 2),
    "another reader": lambda b, x: [flipped(b, y := stack(b, flipped(b, x))), b.Exp(y)],
    "the final state is read": lambda b, x: [
        flipped(b, b.squeeze((y := states(b, flipped(b, x)))[0], [1])), y[1]
    ],
    "lengths": lambda b, x: against(b, x, lengths=lengths(b)),
    "final states of lengths": lambda b, x: states(b, flipped(b, x), lengths=lengths(b))[1:],
    "both directions": lambda b, x: flipped(
        b, b.reshape(states(b, flipped(b, x), "bidirectional")[0], (T, 2 * N, H))
    ),
    "another operator": lambda b, x: flipped(b, b.Exp(flipped(b, x))),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_DIRECTION)
def test_no_direction(name: str) -> None:
    assert not fires(NO_DIRECTION[name], INPUT, RnnDirection())


NO_FINAL: dict[str, Build] = {
    "two states": lambda b, x: b.slice(stack(b, x), [T - 2], [T], axes=[0]),
    "one image": lambda b, x: b.slice(stack(b, x), [N - 1], [N], axes=[1]),
    "lengths": lambda b, x: b.slice(stack(b, x, lengths=lengths(b)), [T - 1], [T], axes=[0]),
    "both directions": lambda b, x: b.slice(states(b, x, "bidirectional")[0], [4], [5], axes=[0]),
    "final states": lambda b, x: b.slice(states(b, x)[1], [0], [1], axes=[0]),
    "another operator": lambda b, x: b.slice(b.Exp(x), [T - 1], [T], axes=[0]),
}


@pytest.mark.parametrize("name", NO_FINAL)
def test_no_final_state(name: str) -> None:
    assert not fires(NO_FINAL[name], INPUT, RnnFinalState())


# -- two directions ------------------------------------------------------------------------------


def pair(
    b: GraphBuilder,
    x: oir.Value,
    y: oir.Value | None = None,
    place: int = 0,
    axis: int = -1,
    one: dict[str, Any] | None = None,
    other: dict[str, Any] | None = None,
) -> oir.Value:
    made = states(b, x, **one or {}), states(b, y or x, **{"direction": "reverse"} | (other or {}))
    return b.concat([b.squeeze(each[place], [0 if place else 1]) for each in made], axis)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("op_type", GATES)
def test_both_directions(op_type: str, place: int) -> None:
    options = {"op_type": op_type}
    found = rewritten(
        lambda b, x: pair(b, x, place=place, one=options, other=options), BidirectionalRnn()
    )
    found.gives(op_type, "Transpose", "Reshape")


def test_attributes_and_states_of_both() -> None:
    zeros = np.full((1, N, H), 0.5, np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        options = {"initial": b.const(zeros), "bias": False, "op_type": "RNN"}
        options["activations"] = ["Relu"]
        return pair(b, x, one=options, other=options)

    rewritten(build, BidirectionalRnn()).gives("RNN", "Transpose", "Reshape")


def test_computed_weights() -> None:
    def build(b: GraphBuilder, x: oir.Value, h: oir.Value) -> oir.Value:
        return pair(b, x, one={"initial": h}, other={"initial": b.Neg(h)})

    inputs = INPUT | {"h": np.ones((1, N, H), np.float32)}
    found = Rewrite(build, inputs, BidirectionalRnn(), tolerance=1e-6)
    found.gives("Neg", "Concat", "LSTM", "Transpose", "Reshape")


START = np.zeros((1, N, H), np.float32)
NO_PAIR: dict[str, Build] = {
    "backward first": lambda b, x: pair(
        b, x, one={"direction": "reverse"}, other={"direction": "forward"}
    ),
    "twice forward": lambda b, x: pair(b, x, other={"direction": "forward"}),
    "of other inputs": lambda b, x: pair(b, x, b.Neg(x)),
    "along the batch": lambda b, x: pair(b, x, axis=1),
    "memories": lambda b, x: pair(b, x, place=2),
    "other operators": lambda b, x: pair(b, x, other={"op_type": "GRU"}),
    "other attributes": lambda b, x: pair(b, x, other={"clip": 1.0}),
    "one bias": lambda b, x: pair(b, x, other={"bias": False}),
    "one initial state": lambda b, x: pair(b, x, other={"initial": b.const(START)}),
    "other lengths": lambda b, x: pair(
        b, x, one={"lengths": lengths(b)}, other={"lengths": b.const(np.array([3, T], np.int32))}
    ),
    "another reader": lambda b, x: [
        y := stack(b, x), b.concat([y, stack(b, x, "reverse")], -1)
    ],
    "the final state is read": lambda b, x: [
        (y := states(b, x))[1], b.concat([b.squeeze(y[0], [1]), stack(b, x, "reverse")], -1)
    ],
    "a function of states": lambda b, x: b.concat(
        [stack(b, x), b.Exp(stack(b, x, "reverse"))], -1
    ),
    "three": lambda b, x: b.concat([stack(b, x), stack(b, x, "reverse"), x], -1),
    "others": lambda b, x: b.concat([x, b.Exp(x)], -1),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_PAIR)
def test_no_pair(name: str) -> None:
    assert not fires(NO_PAIR[name], INPUT, BidirectionalRnn())
