"""Copies of bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
from loop_graphs import loop
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.match.copies import copied
from hlo2onnx.targets import load_target

Value = oir.Value
X = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
INPUTS = {"x": X, "p": X[0], "q": X[1], "r": X[2]}


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
