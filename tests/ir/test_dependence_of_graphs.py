"""What the states of Loops and Scans are computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dependence import Dependence, Draw

T = oir.DataType
X = np.ones(4, np.float32)
Body = Callable[..., Sequence[oir.Value]]
SCALAR: tuple[oir.DataType, tuple[int, ...]] = (T.FLOAT, ())


def scan(body: Body, starts: Sequence[str]) -> list[bool]:
    """Which results of a Scan are fixed: two states and a stack. The body is given the states, a
    slice of the input and one of a constant; the states start with `starts`."""

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        inner = [b.value(name, *SCALAR) for name in ("s", "t", "given", "const")]
        with b.subgraph(inner, "body") as graph:
            graph.outputs.extend(b.Identity(value) for value in body(b, *inner))
        known = {"one": b.scalar(1, T.FLOAT), "max": b.ReduceMax(x, keepdims=0)}
        types = [SCALAR, SCALAR, (T.FLOAT, (4,))]
        return b.outputs(
            "Scan", *(known[start] for start in starts), x, b.const(X),
            body=graph, num_scan_inputs=2, n_outputs=3, types=types,
        )  # fmt: skip

    graph = model_of(build, {"x": X}).graph
    return [Dependence(graph).is_fixed([value]) for value in graph.outputs]


@pytest.mark.parametrize(
    ("body", "starts", "fixed"),
    [
        (lambda b, s, t, x, c: (s, t, c), ("one", "one"), [True, True, True]),
        (lambda b, s, t, x, c: (c, t, s), ("max", "one"), [False, True, False]),
        (lambda b, s, t, x, c: (c, t, s), ("one", "max"), [True, False, True]),
        (lambda b, s, t, x, c: (t, x, c), ("one", "one"), [False, False, True]),
        (lambda b, s, t, x, c: (x, s, c), ("one", "one"), [False, False, True]),
        (lambda b, s, t, x, c: (s, t, x), ("one", "one"), [True, True, False]),
        (lambda b, s, t, x, c: (b.Add(s, c), t, s), ("one", "max"), [True, False, True]),
    ],
)
def test_states_of_a_scan(body: Body, starts: Sequence[str], fixed: list[bool]) -> None:
    assert scan(body, starts) == fixed


def loop(body: Body, trips: str, starts: Sequence[str]) -> list[bool]:
    """Which results of a Loop are fixed: two states and a stack. The body is given the trip's
    number and the states, and gives the condition, the states and what is stacked."""

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        trip, going = b.value("trip", T.INT64, []), b.value("on", T.BOOL, [])
        states = [b.value(name, *SCALAR) for name in ("s", "t")]
        with b.subgraph([trip, going, *states], "body") as graph:
            graph.outputs.extend(b.Identity(value) for value in body(b, trip, *states))
        most = b.ReduceMax(x, keepdims=0)
        known = {"one": b.scalar(1, T.FLOAT), "max": most}
        count = b.i64(3) if trips == "three" else b.cast(most, T.INT64)
        types = [SCALAR, SCALAR, (T.FLOAT, (oir.SymbolicDim("n"),))]
        return b.outputs(
            "Loop", count, None, *(known[start] for start in starts),
            body=graph, n_outputs=3, types=types,
        )  # fmt: skip

    graph = model_of(build, {"x": X}).graph
    return [Dependence(graph).is_fixed([value]) for value in graph.outputs]


def always(b: GraphBuilder) -> oir.Value:
    return b.const(np.array(True))


@pytest.mark.parametrize(
    ("body", "trips", "starts", "fixed"),
    [
        (lambda b, i, s, t: (always(b), s, t, s), "three", ("one", "one"), [True, True, True]),
        (lambda b, i, s, t: (always(b), s, t, s), "max", ("one", "one"), [False, False, False]),
        (lambda b, i, s, t: (always(b), s, t, s), "three", ("max", "one"), [False, True, False]),
        (lambda b, i, s, t: (always(b), s, s, t), "three", ("one", "max"), [True, False, False]),
        (lambda b, i, s, t: (always(b), t, s, s), "three", ("one", "max"), [False, False, False]),
        (lambda b, i, s, t: (b.Less(t, s), s, s, s), "three", ("one", "max"), [False] * 3),
        (lambda b, i, s, t: (always(b), b.cast(i, T.FLOAT), t, s), "three", ("one", "max"),
         [True, False, True]),
    ],
)  # fmt: skip
def test_states_of_a_loop(body: Body, trips: str, starts: Sequence[str], fixed: list[bool]) -> None:
    assert loop(body, trips, starts) == fixed


def test_what_is_drawn_and_what_is_used() -> None:
    """Bits of a fixed key that reach a result repeat, unless they are another key."""

    def build(b: GraphBuilder, x: oir.Value, key: oir.Value) -> list[oir.Value]:
        fixed, bits, more, unused = (b.Identity(b.const(np.float32(n))) for n in range(4))
        return [b.Add(x, bits), b.Neg(more), b.Neg(fixed), b.Neg(unused)]

    graph = model_of(build, {"x": np.float32(1), "key": np.float32(2)}).graph
    fixed, bits, more, unused = (v for node in graph if node.op_type == "Identity"
                                 for v in node.outputs)  # fmt: skip
    x, key = graph.inputs
    del graph.outputs[3]
    dependence = Dependence(graph)
    assert dependence.repeats([Draw([fixed], [], [bits])])
    assert not dependence.repeats([Draw([key], [fixed], [bits])])
    assert not dependence.repeats([Draw([fixed], [x], [bits])])
    assert not dependence.repeats([Draw([fixed], [], [unused])])
    assert not dependence.repeats([])
    assert not dependence.repeats([Draw([fixed], [], [more]), Draw([more, key], [], [bits])])
    assert dependence.repeats([Draw([fixed], [], [more]), Draw([more], [], [bits])])
