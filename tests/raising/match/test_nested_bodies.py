"""Values that bodies of inner loops read, and those that change with the outer loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import loop
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import reads
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter
from hlo2onnx.raising.match.nested_loops import Nested, copied
from hlo2onnx.targets import load_target

Value = oir.Value
X = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
INPUTS = {"x": X, "p": X[0], "q": X[1], "r": X[2]}
Step = Callable[..., tuple[Sequence[Value], Sequence[Value]]]


def scan(b: GraphBuilder, initial: list[Value], rows: list[Value], step: Step, **more: Any) -> None:
    """A Scan whose body is `step(*states, *rows)`."""
    states = [b.value("state", dtype_of(x), shape_of(x)) for x in initial]
    taken = [b.value("row", dtype_of(x), shape_of(x)[1:]) for x in rows]
    with b.subgraph([*states, *taken], "body") as body:
        after, stacks = step(*states, *taken)
        body.outputs.extend([*after, *stacks])
    types = [(dtype_of(x), shape_of(x)) for x in after]
    types += [(dtype_of(x), (4, *shape_of(x))) for x in stacks]
    attributes = {"body": body, "num_scan_inputs": len(rows), **more}
    b.node("Scan", [*initial, *rows], attributes, types)


class Graph:
    """A graph with one loop in it, over three vectors and a matrix x."""

    def __init__(self, make: Callable[..., object]) -> None:
        self.model = model_of(self._build(make), INPUTS)
        self.x, self.p, self.q, self.r = self.model.graph.inputs
        (self.node,) = (n for n in self.model.graph if n.op_type in ("Loop", "Scan"))
        self.body = self.node.attributes["body"].as_graph()

    @staticmethod
    def _build(make: Callable[..., object]) -> Callable[..., Value]:
        def build(b: GraphBuilder, x: Value, p: Value, q: Value, r: Value) -> Value:
            make(b, x, p, q, r)
            made: Value = b.Neg(p)
            return made

        return build


def made_loop(step: Callable[..., Any], **options: Any) -> Graph:
    """A Loop over p and q that may read x and r."""
    return Graph(
        lambda b, x, p, q, r: loop(b, 4, [p, q], lambda i, s, t: step(b, x, r, i, s, t), **options)
    )


def made_scan(step: Callable[..., Any], **more: Any) -> Graph:
    """A Scan over p, q and the rows of x that may read r."""
    return Graph(
        lambda b, x, p, q, r: scan(b, [p, q], [x], lambda s, t, row: step(b, r, s, t, row), **more)
    )


def test_parts_of_a_loop() -> None:
    graph = made_loop(lambda b, x, r, i, s, t: ([b.Add(s, r), b.Neg(t)], [b.Mul(s, r)]))
    nested = Nested(graph.node)
    assert nested.states == range(2, 4)
    assert nested.scanned == 0
    assert nested.results == list(graph.body.outputs)[1:]
    assert nested.captured == {graph.r}


def test_operands_that_are_left_out_are_not_captured() -> None:
    graph = made_loop(lambda b, x, r, i, s, t: ([b.op("Clip", s, None, r), b.Neg(t)], []))
    assert Nested(graph.node).captured == {graph.r}


def test_parts_of_a_scan() -> None:
    graph = made_scan(lambda b, r, s, t, row: ([b.Add(s, r), b.Neg(t)], [b.Mul(t, row)]))
    nested = Nested(graph.node)
    assert nested.states == range(2)
    assert nested.scanned == 1
    assert nested.results == list(graph.body.outputs)
    assert nested.captured == {graph.r}


def test_outputs_that_are_captured() -> None:
    made: list[Value] = []

    def make(b: GraphBuilder, x: Value, p: Value, q: Value, r: Value) -> None:
        made.append(b.Abs(r))
        loop(b, 4, [p], lambda i, s: ([b.Neg(s)], made), direct=True)

    assert Nested(Graph(make).node).captured == {*made}


@pytest.mark.parametrize(
    "make",
    [
        lambda: made_loop(lambda b, x, r, i, s, t: ([b.Neg(s), b.Neg(t)], []), stopped=True),
        lambda: made_loop(
            lambda b, x, r, i, s, t: (
                [b.Neg(s), *loop(b, 2, [t], lambda j, a: ([b.Add(a, r)], []))],
                [],
            )
        ),
        lambda: made_scan(
            lambda b, r, s, t, row: ([b.Neg(s), b.Neg(t)], [b.Abs(row)]), scan_input_directions=[1]
        ),
        lambda: made_scan(
            lambda b, r, s, t, row: ([b.Neg(s), b.Neg(t)], [b.Abs(row)]), scan_output_axes=[1]
        ),
    ],
    ids=["condition", "another-loop", "backwards", "stacked-along-another-axis"],
)
def test_other_loops_are_refused(make: Callable[[], Graph]) -> None:
    graph = make()
    with pytest.raises(Refusal):
        Nested(graph.node)


CHANGING: dict[str, tuple[Callable[..., Any], str, str]] = {
    # what a trip makes, what changes, and which states and stacks change then
    "nothing": (lambda b, x, r, i, s, t: ([b.Neg(s), b.Neg(t)], [b.Abs(s), b.Abs(t)]), "", ""),
    "a-state": (
        lambda b, x, r, i, s, t: ([b.Neg(s), b.Neg(t)], [b.Abs(s), b.Abs(t)]), "p", "s0 r0"
    ),
    "the-other-state": (
        lambda b, x, r, i, s, t: ([b.Neg(s), b.Neg(t)], [b.Abs(s), b.Abs(t)]), "q", "s1 r1"
    ),
    "both": (
        lambda b, x, r, i, s, t: ([b.Neg(s), b.Neg(t)], [b.Abs(s), b.Abs(t)]), "p q", "s0 s1 r0 r1"
    ),
    "what-it-captures": (
        lambda b, x, r, i, s, t: ([b.Neg(s), b.Add(t, r)], [b.Abs(s), b.Abs(t)]), "r", "s1 r1"
    ),
    "in-a-trip": (
        lambda b, x, r, i, s, t: ([b.Neg(s), b.Neg(t)], [b.Abs(s), b.Mul(r, t)]), "r", "r1"
    ),
    "only-at-first": (
        lambda b, x, r, i, s, t: ([b.Neg(t), b.Exp(t)], [b.Abs(s), b.Abs(t)]), "p", "s0 r0"
    ),
    "through-the-other-state": (
        lambda b, x, r, i, s, t: ([b.Neg(t), b.Abs(t)], [b.Abs(s), b.Abs(t)]), "q", "s0 s1 r0 r1"
    ),
    "against-the-order": (
        lambda b, x, r, i, s, t: ([b.Add(s, r), b.Neg(s)], [b.Abs(t), b.Neg(i)]), "r", "s0 s1 r0"
    ),
    "second-operand": (
        lambda b, x, r, i, s, t: ([b.Add(s, b.Mul(s, r)), b.Neg(t)], [b.Abs(t), b.Neg(s)]),
        "r",
        "s0 r1",
    ),
    "missing-operand": (
        lambda b, x, r, i, s, t: (
            [b.Neg(s), b.op("Clip", t, None, b.const(np.float32(1)))], [b.Abs(s), b.Abs(t)]
        ),
        "p",
        "s0 r0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGING)
def test_what_changes_with_values_from_outside(name: str) -> None:
    step, given, expected = CHANGING[name]
    graph = made_loop(step)
    nested = Nested(graph.node)
    rows = {getattr(graph, one) for one in given.split()}
    changing = nested.changing(rows)
    names = ["s0", "s1", "r0", "r1"]
    assert [one for k, one in enumerate(names) if nested.changes(k, changing)] == expected.split()
    assert graph.body.inputs[0] not in changing
    assert not rows & changing


def test_scanned_rows_that_change() -> None:
    graph = made_scan(lambda b, r, s, t, row: ([b.Add(s, row), b.Neg(t)], [b.Abs(row), b.Abs(t)]))
    nested = Nested(graph.node)
    changing = nested.changing({graph.x})
    assert [nested.changes(k, changing) for k in range(4)] == [True, False, True, False]


def test_what_a_node_reads() -> None:
    def step(b: GraphBuilder, x: Value, r: Value, i: Value, s: Value, t: Value) -> Any:
        (inner,) = loop(b, 2, [t], lambda j, a: ([b.Add(a, r)], []))
        return [b.Neg(s), inner], [x]

    graph = made_loop(step)
    found = reads(graph.node)
    assert {graph.p, graph.q, graph.x, graph.r} <= set(found)
    assert None not in found
    negative = graph.model.graph.outputs[0].producer()
    assert negative is not None
    assert reads(negative) == [graph.p]


def test_copies_have_names_of_their_own_and_no_notes() -> None:
    def step(b: GraphBuilder, x: Value, r: Value, i: Value, s: Value, t: Value) -> Any:
        (inner,) = loop(b, 2, [t], lambda j, a: ([b.Add(a, r)], []))
        return [b.Neg(s), inner], [x]

    graph = made_loop(step)
    graph.body.name = "epoch"
    made = graph.body.outputs[1]
    made.name = "negative"
    b = Rewriter(graph.model, load_target("ort-cpu"))
    made.meta["range"] = "known"
    copy, pairs = copied(b, graph.body)
    (inner,) = (node for node in graph.body if node.op_type == "Loop")
    (inner_copy,) = (node for node in copy if node.op_type == "Loop")
    bodies = [graph.body, copy, *(n.attributes["body"].as_graph() for n in (inner, inner_copy))]
    assert str(copy.name).startswith("epoch")
    values = [x for body in bodies for x in (*body.inputs, *(y for n in body for y in n.outputs))]
    assert len({x.name for x in values}) == len(values)
    assert str(pairs[made].name).startswith("negative")
    assert "range" not in pairs[made].meta
    assert made.meta["range"] == "known"
    assert [pairs[x] for x in graph.body.inputs] == list(copy.inputs)
    assert copy.outputs[3].producer().inputs[0] is graph.x  # type: ignore[union-attr]
    assert copy.outputs[1] is pairs[made]


def test_a_copy_of_a_body_without_a_name() -> None:
    graph = made_loop(lambda b, x, r, i, s, t: ([b.Neg(s), b.Neg(t)], []))
    graph.body.name = None
    copy, _ = copied(Rewriter(graph.model, load_target("ort-cpu")), graph.body)
    assert str(copy.name).startswith("body")
