"""Loops as rules see them: trips, states, stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import loop
from rewriting import model_of, run_model

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import symbol
from hlo2onnx.ir.values import shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter
from hlo2onnx.raising.match.counted_loop import counted, has_one_shape, rebuilt, release
from hlo2onnx.targets import load_target

Value = oir.Value
X = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
H, G = X[0] + 1, X[1] * 2
INPUTS = {"x": X, "h": H, "g": G, "n": np.array(4)}


def plain(b: GraphBuilder, x: Value, trip: Value, h: Value, g: Value) -> Any:
    return [b.Add(h, b.Gather(x, trip, axis=0)), b.Sub(g, h)], [b.Mul(h, g), b.Neg(g)]


def model(
    step: Callable[..., Any] = plain,
    count: int | None = 4,
    change: Callable[[oir.Node], None] = lambda node: None,
    **options: Any,
) -> tuple[Rewriter, oir.Node]:
    """A model with one loop over two states, and a rewriter that stands before the loop."""

    def build(b: GraphBuilder, x: Value, h: Value, g: Value, n: Value) -> Any:
        limit = n if count is None else count
        return loop(b, limit, [h, g], lambda i, h, g: step(b, x, i, h, g), **options)

    made = model_of(build, INPUTS)
    (node,) = (node for node in made.graph if node.op_type == "Loop")
    change(node)
    return Rewriter(made, load_target("ort-cpu")), node


def stacks_of(*dims: Any) -> Callable[[oir.Node], None]:
    """Gives the stacks of a loop these extents of trips."""

    def change(node: oir.Node) -> None:
        for stack, dim in zip(node.outputs[2:], dims, strict=True):
            stack.shape = oir.Shape([dim, 3])

    return change


def with_condition(node: oir.Node) -> None:
    graph = node.graph
    assert graph is not None
    holds = oir.Value(name="holds", type=oir.TensorType(oir.DataType.BOOL), shape=oir.Shape([]))
    graph.inputs.append(holds)
    node.replace_input_with(1, holds)


POSITIVE, FREE = symbol("trips", positive=True), symbol("trips", positive=False)

COUNTED: dict[str, tuple[dict[str, Any], bool, object]] = {
    "number": ({}, False, 4),
    "one": ({"count": 1}, False, 1),
    "number-asked-for-symbols": ({}, True, 4),
    "none": ({"count": 0}, False, None),
    "none-asked-for-symbols": ({"count": 0}, True, None),
    "less-than-none": ({"count": -1, "change": stacks_of(1, 1)}, False, None),
    "unknown": ({"count": None}, False, None),
    "unknown-asked-for-symbols": ({"count": None}, True, None),
    "extent": ({"count": None, "change": stacks_of(POSITIVE, POSITIVE)}, True, POSITIVE),
    "extent-not-asked-for": ({"count": None, "change": stacks_of(POSITIVE, POSITIVE)}, False, None),
    "extent-that-may-be-nothing": ({"count": None, "change": stacks_of(FREE, FREE)}, True, None),
    "condition-in-the-body": ({"stopped": True}, False, None),
    "condition-before": ({"change": with_condition}, False, None),
    "flag-itself": ({"direct": True}, False, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_trips_that_are_counted(name: str) -> None:
    options, symbolic, length = COUNTED[name]
    _, node = model(**options)
    if length is None:
        with pytest.raises(Refusal):
            counted(node, symbolic)
        return
    trips = counted(node, symbolic)
    assert trips.length == length
    assert trips.count == (length if isinstance(length, int) else 0)


def test_another_node_is_no_loop() -> None:
    b, _ = model()
    node = b.Neg(b.main_graph.inputs[0]).producer()
    assert node is not None
    with pytest.raises(Refusal):
        counted(node)


def test_shapes_that_are_the_same_in_every_trip() -> None:
    b, _ = model()
    graph = b.main_graph
    batch = symbol("batch", positive=True)
    graph.inputs[0].shape = oir.Shape([batch, 3])

    def shaped(*dims: Any) -> bool:
        return has_one_shape(b, b.value("v", oir.DataType.FLOAT, dims))

    assert shaped()
    assert shaped(2, 3)
    assert shaped(2, batch)
    assert shaped(2 * batch + 1)
    assert not shaped(2, oir.SymbolicDim(None))
    assert not shaped(symbol("length", positive=True))
    assert not shaped(batch, symbol("length", positive=True))


# -- another loop with the same body ---------------------------------------------------------------


def _model(b: Rewriter) -> oir.Model:
    return oir.Model(b.main_graph, ir_version=10)


def test_stacks_that_are_states_rows_and_values_from_outside() -> None:
    """Each output of a body is its own."""
    b, node = model()
    trips = counted(node)
    h = b.main_graph.inputs[1]
    state, _ = trips.states
    first, _ = trips.after
    row, _ = trips.rows
    with b.before(node):
        final, stacks = rebuilt(b, trips, [row, row, state, first, h])
    assert [shape_of(value) for value in (*final, *stacks)] == [(3,)] * 2 + [(4, 3)] * 5
    names = [value.name for value in stacks[0].producer().attributes["body"].as_graph().outputs]  # type: ignore[union-attr]
    assert len(set(names)) == len(names)
    b.main_graph.outputs.clear()
    b.main_graph.outputs.extend([*final, *stacks])
    node.graph.remove(node, safe=True)  # type: ignore[union-attr]
    results = run_model(_model(b), INPUTS)
    before = np.concatenate([H[None], H + np.cumsum(X, 0)])
    np.testing.assert_array_equal(results[0], before[-1])
    np.testing.assert_array_equal(results[2], results[3])
    np.testing.assert_array_equal(results[4], before[:-1])
    np.testing.assert_array_equal(results[5], before[1:])
    np.testing.assert_array_equal(results[6], np.stack([H] * 4))


def test_nothing_to_carry_or_to_stack() -> None:
    b, node = model()
    with b.before(node):
        assert rebuilt(b, counted(node), [], []) == ([], [])
    assert not b.main_graph.inputs[0].uses()
    assert not len(node.attributes["body"].as_graph())


# -- editing bodies --------------------------------------------------------------------------------


def with_inner_loop(b: GraphBuilder, x: Value, i: Value, h: Value, g: Value) -> Any:
    (inner,) = loop(b, 3, [h], lambda j, a: ([b.Add(a, b.Gather(x, j, axis=0))], []))
    return [b.Neg(h), b.Neg(g)], [inner]


def test_bodies_let_go_of_what_they_read() -> None:
    b, node = model(with_inner_loop)
    release(node.attributes["body"].as_graph())
    assert not b.main_graph.inputs[0].uses()
