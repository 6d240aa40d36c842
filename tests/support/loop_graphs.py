"""Loops built by hand, for testing single rules about loops on small graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as oir
from rewriting import Build, Inputs, Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.raising.engine import Rule

Results = Sequence[oir.Value]
Step = Callable[..., tuple[Results, Results]]


def loop(
    b: GraphBuilder,
    count: int | oir.Value,
    initial: Results,
    step: Step,
    stopped: bool = False,
    direct: bool = False,
) -> list[oir.Value]:
    """A Loop of so many trips.

    Args:
        count: The number of trips, or a value that holds it at run time.
        initial: The states before the first trip.
        step: `step(trip, *states)` gives the states after a trip and a row of each stack.
        stopped: Whether the body computes a condition (which is true).
        direct: Whether the body returns its inputs directly, without an Identity.
    """
    number, on = b.value("trip", oir.DataType.INT64, []), b.value("on", oir.DataType.BOOL, [])
    states = [b.value("state", dtype_of(x), shape_of(x)) for x in initial]
    with b.subgraph([number, on, *states], "body") as body:
        after, rows = step(number, *states)
        going = b.Less(number, b.i64(1000)) if stopped else on if direct else b.Identity(on)
        results: list[oir.Value] = [going]
        for value in (*after, *rows):
            node = value.producer()
            own = direct or (node is not None and node.graph is body and value not in results)
            results.append(value if own else b.Identity(value))
        body.outputs.extend(results)
    trips = count if isinstance(count, int) else oir.SymbolicDim(None)
    types = [(dtype_of(x), shape_of(x)) for x in after]
    types += [(dtype_of(x), (trips, *shape_of(x))) for x in rows]
    limit = b.i64(count) if isinstance(count, int) else count
    made: list[oir.Value] = b.node("Loop", [limit, None, *initial], {"body": body}, types)
    return made


def either(b: GraphBuilder, x: oir.Value, first: Results, second: Results) -> list[oir.Value]:
    """An If that gives copies of the first values, or of the second ones."""
    graphs = []
    for values in (first, second):
        with b.subgraph([], "branch") as graph:
            graph.outputs.extend([b.Identity(value) for value in values])
        graphs.append(graph)
    condition = b.Less(b.ReduceSum(x, b.i64([0]), keepdims=0), b.scalar(9, oir.DataType.FLOAT))
    types = [(dtype_of(value), shape_of(value)) for value in first]
    branches = {"then_branch": graphs[0], "else_branch": graphs[1]}
    made: list[oir.Value] = b.node("If", [condition], branches, types)
    return made


class LoopRewrite(Rewrite):
    """A graph with loops after some rules.

    Attributes:
        outside: Operators of the main graph.
        inside: Operators of bodies, without Identity.
    """

    def __init__(self, build: Build, inputs: Inputs, *rules: Rule, **options: float) -> None:
        super().__init__(build, inputs, *rules, **options)  # type: ignore[arg-type]
        self.outside, self.inside = outside_and_inside(self.model.graph)
        del self.inside["Identity"]


def outside_and_inside(graph: oir.Graph) -> tuple[Counter[str], Counter[str]]:
    """The operators of a graph, and those of all bodies and branches in it."""
    inside = Counter(
        node.op_type for outer in graph for body in subgraphs(outer) for node in body.all_nodes()
    )
    return Counter(node.op_type for node in graph), inside


X = np.arange(20, dtype=np.float32).reshape(5, 4) - 7
H = np.arange(4, dtype=np.float32)
CELLS = np.arange(54, dtype=np.float32).reshape(6, 9)

Body = Callable[[GraphBuilder, oir.Value, oir.Value, oir.Value], Any]


def row(b: GraphBuilder, x: oir.Value, trip: oir.Value, axis: int = 0) -> oir.Value:
    return b.Gather(x, trip, axis=axis)


def rewrite(
    body: Body,
    *rules: Any,
    count: int = 5,
    h: np.ndarray = H,
    x: np.ndarray = X,
    stopped: bool = False,
) -> LoopRewrite:
    """The loop whose body is `body(b, x, trip, state) -> ([state], rows)`."""

    def build(b: GraphBuilder, x: oir.Value, h: oir.Value) -> Any:
        made = loop(b, count, [h], lambda trip, state: body(b, x, trip, state), stopped)
        return [b.Neg(value) for value in made]

    return LoopRewrite(build, {"x": x, "h": h}, *rules, opset=21)


def added(of: Callable[[GraphBuilder, oir.Value, oir.Value], oir.Value]) -> Body:
    """h + of(x, trip)"""
    return lambda b, x, trip, h: ([b.Add(h, of(b, x, trip))], [])


def stacked(of: Callable[[GraphBuilder, oir.Value, oir.Value, oir.Value], oir.Value]) -> Body:
    """h + 1, and a stack of something."""
    return lambda b, x, trip, h: ([b.Sin(h)], [of(b, x, trip, h)])


def part(
    b: GraphBuilder, x: oir.Value, start: int, stop: int, step: int = 1, axis: int = 1
) -> oir.Value:
    """A slice along an axis."""
    return b.slice(x, [start], [stop], [step], [axis])


def numbers(*shape: int) -> np.ndarray:
    """Small integers, for exact sums and products."""
    return np.random.default_rng(len(shape)).integers(-3, 4, size=shape).astype(np.float32)


def number(b: GraphBuilder, x: float) -> oir.Value:
    """A constant."""
    return b.const(np.float32(x))


def stepped(
    step: Callable[[GraphBuilder, oir.Value], oir.Value],
    x: np.ndarray,
    *rules: Rule,
    count: int = 2,
) -> LoopRewrite:
    """A loop whose state becomes step(state)."""

    def build(b: GraphBuilder, x: oir.Value) -> Any:
        return [b.Neg(value) for value in loop(b, count, [x], lambda _, s: ([step(b, s)], []))]

    return LoopRewrite(build, {"x": x}, *rules)
