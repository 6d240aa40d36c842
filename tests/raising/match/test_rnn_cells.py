"""Activations, operands and states of recurrent cells, as rules read them in a body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import loop, number
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Refusal
from hlo2onnx.raising.match.counted_loop import counted
from hlo2onnx.raising.match.linear_terms import Other, Part, Product
from hlo2onnx.raising.match.rnn_cells import Cell, Reader

Value = oir.Value
Make = Callable[[GraphBuilder, Value, Value, Value], Value]
GIVEN = {
    "o": np.ones((3, 2), np.float32),
    "h": np.ones((3, 2), np.float32),
    "g": np.ones((3, 2), np.float32),
}


def read(
    make: Make, given: dict[str, np.ndarray] = GIVEN
) -> tuple[Reader, Value, dict[Value, str]]:
    """A reader of a body with the states h and g, what it makes of them, and names of values."""
    made: list[Value] = []

    def build(b: GraphBuilder, o: Value, h: Value, g: Value) -> Value:
        def step(i: Value, h: Value, g: Value) -> Any:
            made.append(make(b, h, g, o))
            return [b.Neg(h), b.Neg(g)], [made[0]]

        return loop(b, 4, [h, g], step)[0]

    model = model_of(build, given)
    (node,) = (node for node in model.graph if node.op_type == "Loop")
    trips = counted(node)
    names = dict(zip([*trips.states, model.graph.inputs[0]], "hgo", strict=True))
    return Reader(trips, 0), made[0], names


def whole(value: Value) -> Part:
    shape = value.shape
    assert shape is not None
    return Part(value, len(shape) - 1, 0, int(shape[-1]))  # type: ignore[arg-type]


def one_over(b: GraphBuilder, x: Value, of: float = 1) -> Value:
    made: Value = b.Div(number(b, of), x)
    return made


def power(b: GraphBuilder, x: Value) -> Value:
    made: Value = b.Exp(b.Neg(x))
    return made


UNDER: dict[str, tuple[str, Make, str]] = {
    "sigmoid": ("Sigmoid", lambda b, h, g, o: b.Sigmoid(h), "h"),
    "tanh": ("Tanh", lambda b, h, g, o: b.Tanh(g), "g"),
    "another": ("Tanh", lambda b, h, g, o: b.Sigmoid(h), ""),
    "copied": ("Sigmoid", lambda b, h, g, o: b.Identity(b.Sigmoid(b.Identity(h))), "h"),
    "state": ("Sigmoid", lambda b, h, g, o: h, ""),
    "spelled": ("Sigmoid", lambda b, h, g, o: one_over(b, b.Add(number(b, 1), power(b, h))), "h"),
    "turned": ("Sigmoid", lambda b, h, g, o: one_over(b, b.Add(power(b, h), number(b, 1))), "h"),
    "reciprocal": (
        "Sigmoid",
        lambda b, h, g, o: b.Reciprocal(b.Add(number(b, 1), power(b, h))),
        "h",
    ),
    "spelled-for-tanh": (
        "Tanh",
        lambda b, h, g, o: one_over(b, b.Add(number(b, 1), power(b, h))),
        "",
    ),
    "of-two": ("Sigmoid", lambda b, h, g, o: one_over(b, b.Add(number(b, 1), power(b, h)), 2), ""),
    "two-and": ("Sigmoid", lambda b, h, g, o: one_over(b, b.Add(number(b, 2), power(b, h))), ""),
    "of-the-state": ("Sigmoid", lambda b, h, g, o: one_over(b, h), ""),
    "of-a-product": (
        "Sigmoid",
        lambda b, h, g, o: one_over(b, b.Mul(number(b, 1), power(b, h))),
        "",
    ),
    "of-a-difference": (
        "Sigmoid",
        lambda b, h, g, o: one_over(b, b.Sub(power(b, h), number(b, 1))),
        "",
    ),
    "of-two-states": ("Sigmoid", lambda b, h, g, o: one_over(b, b.Add(h, g)), ""),
    "of-two-powers": (
        "Sigmoid",
        lambda b, h, g, o: one_over(b, b.Add(power(b, h), power(b, g))),
        "",
    ),
    "and-the-state": ("Sigmoid", lambda b, h, g, o: one_over(b, b.Add(number(b, 1), h)), ""),
    "and-a-negative": (
        "Sigmoid",
        lambda b, h, g, o: one_over(b, b.Add(number(b, 1), b.Neg(h))),
        "",
    ),
    "not-negated": ("Sigmoid", lambda b, h, g, o: one_over(b, b.Add(number(b, 1), b.Exp(h))), ""),
    "of-a-magnitude": (
        "Sigmoid",
        lambda b, h, g, o: one_over(b, b.Add(number(b, 1), b.Exp(b.Abs(h)))),
        "",
    ),
    "of-one-and-one": (
        "Sigmoid",
        lambda b, h, g, o: b.Div(ones(b), b.Add(ones(b), ones(b))),
        "",
    ),
    "a-product-over": (
        "Sigmoid",
        lambda b, h, g, o: b.Mul(number(b, 1), b.Add(number(b, 1), power(b, h))),
        "",
    ),
    "relu": ("Relu", lambda b, h, g, o: b.Relu(h), "h"),
    "max": ("Relu", lambda b, h, g, o: b.Max(h, number(b, 0)), "h"),
    "max-turned": ("Relu", lambda b, h, g, o: b.Max(number(b, 0), h), "h"),
    "max-for-tanh": ("Tanh", lambda b, h, g, o: b.Max(number(b, 0), h), ""),
    "max-with-one": ("Relu", lambda b, h, g, o: b.Max(h, number(b, 1)), ""),
    "max-of-two": ("Relu", lambda b, h, g, o: b.Max(h, g), ""),
    "max-of-three": ("Relu", lambda b, h, g, o: b.Max(h, g, number(b, 0)), ""),
    "max-of-one": ("Relu", lambda b, h, g, o: b.Max(h), ""),
    "min": ("Relu", lambda b, h, g, o: b.Min(h, number(b, 0)), ""),
    "added-to-zero": ("Relu", lambda b, h, g, o: b.Add(h, number(b, 0)), ""),
    "broadcast": ("Relu", lambda b, h, g, o: b.Max(b.const(np.zeros((1, 2), np.float32)), h), ""),
    "of-more-axes": (
        "Relu",
        lambda b, h, g, o: b.Max(h, b.const(np.zeros((1, 1, 1), np.float32))),
        "",
    ),
}


def ones(b: GraphBuilder) -> Value:
    return b.const(np.ones(1, np.float32))


@pytest.mark.parametrize("name", UNDER)
def test_what_an_activation_is_applied_to(name: str) -> None:
    op_type, make, expected = UNDER[name]
    reader, value, names = read(make)
    found = reader.under(whole(value), op_type)
    assert ("" if found is None else names[found.value]) == expected
    assert found is None or (found.axis, found.low, found.high) == (1, 0, 2)


def test_activations_before_the_loop_are_no_gates() -> None:
    reader, value, _ = read(lambda b, h, g, o: b.Sigmoid(o))
    producer = value.producer()
    assert producer is not None
    outer = producer.inputs[0]
    assert outer is not None
    outside = reader.trips.loop.graph
    assert outside is not None
    made = oir.node("Sigmoid", [outer])
    made.outputs[0].dtype, made.outputs[0].shape = outer.dtype, outer.shape
    outside.insert_before(reader.trips.loop, made)
    assert reader.under(whole(made.outputs[0]), "Sigmoid") is None
    assert reader.operands(whole(made.outputs[0]), "Sigmoid") is None


OPERANDS: dict[str, tuple[str, Make, list[str]]] = {
    "product": ("Mul", lambda b, h, g, o: b.Mul(h, g), ["hg", "gh"]),
    "difference": ("Sub", lambda b, h, g, o: b.Sub(b.Identity(g), h), ["gh", "hg"]),
    "with-the-outside": ("Add", lambda b, h, g, o: b.Add(h, o), ["ho", "oh"]),
    "another-operator": ("Mul", lambda b, h, g, o: b.Add(h, g), []),
    "state": ("Mul", lambda b, h, g, o: h, []),
    "left-broadcast": ("Mul", lambda b, h, g, o: b.Mul(number(b, 1), g), []),
    "right-broadcast": ("Mul", lambda b, h, g, o: b.Mul(g, number(b, 1)), []),
    "both-broadcast": (
        "Mul",
        lambda b, h, g, o: b.Mul(
            b.slice(h, [0], [1], axes=[0]), b.const(np.ones((3, 1), np.float32))
        ),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_of_two_values(name: str) -> None:
    op_type, make, expected = OPERANDS[name]
    reader, value, names = read(make)
    pairs = list(reader.both(whole(value), op_type))
    assert ["".join(names[part.value] for part in pair) for pair in pairs] == expected


def test_operands_of_a_part() -> None:
    """A state takes part with all of its features."""
    reader, value, _ = read(lambda b, h, g, o: b.Mul(h, g))
    assert reader.operands(whole(value), "Mul") is not None
    assert reader.operands(Part(value, 1, 0, 1), "Mul") is None
    reader, value, _ = read(lambda b, h, g, o: b.Mul(b.concat([h, h], 1), b.concat([g, o], 1)))
    assert reader.operands(whole(value), "Mul") is None
    found = reader.operands(Part(value, 1, 2, 4), "Mul")
    assert found is not None
    assert [(part.low, part.high) for part in found] == [(0, 2), (0, 2)]


def test_states_and_their_parts() -> None:
    reader, value, _ = read(lambda b, h, g, o: b.Identity(b.Identity(g)))
    h, g = reader.trips.states
    assert reader.width == 2
    assert reader.part(value) == Part(g, 1, 0, 2)
    assert reader.is_state(whole(h))
    assert reader.is_state(whole(g), g)
    assert not reader.is_state(whole(g))
    assert not reader.is_state(Part(h, 1, 0, 1))
    assert not reader.is_state(Part(h, 0, 0, 2))


@pytest.mark.parametrize("make", [
    lambda b, h, g, o: b.slice(h, [0], [1], axes=[1]),
    lambda b, h, g, o: b.ReduceMax(h, keepdims=0),
], ids=["narrow", "number"])  # fmt: skip
def test_parts_that_are_no_states(make: Make) -> None:
    reader, value, _ = read(make)
    with pytest.raises(Refusal):
        reader.part(value)


@pytest.mark.parametrize(
    ("shape", "fits"), [((2,), True), ((3, 2), True), ((2, 3, 2), False), ((), False)]
)
def test_states_are_batches_of_vectors(shape: tuple[int, ...], fits: bool) -> None:
    given = {name: np.ones(shape, np.float32) for name in "ohg"}
    if fits:
        assert read(lambda b, h, g, o: b.Neg(h), given)[0].width == 2
        return
    with pytest.raises(Refusal):
        read(lambda b, h, g, o: b.Neg(h), given)


def test_the_one_product_with_the_state() -> None:
    matrix = np.ones((2, 2), np.float32)

    def terms(make: Make) -> tuple[Reader, list[Any]]:
        reader, value, _ = read(make)
        return reader, list(reader.sums.terms(whole(value)))

    reader, found = terms(lambda b, h, g, o: b.Add(b.Sub(b.MatMul(h, b.const(matrix)), g), o))
    product, others = reader.recurrent(found)
    assert isinstance(product, Product)
    assert product is found[0]
    assert [type(term) for term in others] == [Other, Other]
    assert others == found[1:]
    for make in (
        lambda b, h, g, o: b.Add(b.MatMul(g, b.const(matrix)), o),
        lambda b, h, g, o: b.Add(b.MatMul(h, b.const(matrix)), b.MatMul(h, b.const(2 * matrix))),
    ):
        reader, found = terms(make)
        with pytest.raises(Refusal):
            reader.recurrent(found)


def test_no_gate_without_its_activation() -> None:
    reader, _, _ = read(lambda b, h, g, o: b.Neg(h))
    with pytest.raises(Refusal):
        reader.gate(None)


def test_keys_of_operators() -> None:
    assert Cell("LSTM", 0, 1, (), {}).op_key == "LSTM"
    assert (
        Cell("GRU", 0, None, (), {"linear_before_reset": 1}).op_key == "GRU[linear_before_reset=1]"
    )
