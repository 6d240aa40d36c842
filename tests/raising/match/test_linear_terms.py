"""The terms of the sums in a loop's body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import loop
from rewriting import foreign, model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.raising.match.counted_loop import Trips, counted
from hlo2onnx.raising.match.linear_terms import Bias, Other, Part, Product, Sums, Term

Value = oir.Value
TRIPS, BATCH, INPUTS, WIDTH = 4, 3, 5, 8
SHAPES = {
    "x": (TRIPS, BATCH, INPUTS),
    "g": (TRIPS, BATCH, WIDTH),
    "v": (TRIPS, INPUTS),
    "h": (BATCH, WIDTH),
    "W": (INPUTS, WIDTH),
    "R": (WIDTH, WIDTH),
    "T": (WIDTH, INPUTS),
    "c": (WIDTH,),
    "n": (1,),
    "column": (BATCH, 1),
    "line": (1, WIDTH),
    "all": (BATCH, WIDTH),
    "once": (TRIPS, 1, WIDTH),
    "joined": (INPUTS + WIDTH, WIDTH),
}
GIVEN = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}


class Body:
    """The builder, and the values that a body reads, by name; `h` is the state, `i` the trip."""

    def __init__(self, b: GraphBuilder, values: dict[str, Value]) -> None:
        self.b = b
        self._values = values

    def __getattr__(self, name: str) -> Value:
        return self._values[name]

    def row(self, x: Value, axis: int = 0) -> Value:
        made: Value = self.b.Gather(x, self.i, axis=axis)
        return made

    def add(self, x: Value, y: Value) -> Value:
        made: Value = self.b.Add(x, y)
        return made

    def product(self, x: Value, y: Value) -> Value:
        made: Value = self.b.MatMul(x, y)
        return made


def terms_of(
    make: Callable[[Body], Value],
    part: tuple[int, int] | None = None,
    before: Callable[[Body], Value] | None = None,
) -> list[str]:
    """The terms of what a body makes, as texts. It may read what is made `before` the loop."""
    made: list[Value] = []

    def build(b: GraphBuilder, **values: Value) -> Value:
        if before is not None:
            values["outer"] = before(Body(b, values))

        def step(i: Value, h: Value) -> Any:
            made.append(make(Body(b, {**values, "h": h, "i": i})))
            return [h], [made[0]]

        return loop(b, TRIPS, [values["h"]], step)[0]

    model = model_of(build, GIVEN)
    (node,) = (node for node in model.graph if node.op_type == "Loop")
    trips = counted(node)
    sums = Sums(trips)
    whole = sums.whole(made[0])
    assert whole is not None
    if part is not None:
        whole = Part(whole.value, whole.axis, *part)
    return [described(term, trips) for term in sums.terms(whole)]


def described(term: Term, trips: Trips) -> str:
    def name(value: Value) -> str:
        return "h" if value in trips.states else str(value.name)

    def of(part: Part) -> str:
        time = "" if part.time is None else f" trips {part.time}"
        turns = "".join(f" {t.start}:{t.end}:{t.step}={t.extent}" for t in part.turns)
        return f"{name(part.value)}/{part.axis}[{part.low}:{part.high}]{time}{turns}"

    sign = "+" if term.sign == 1 else "-"
    if isinstance(term, Product):
        (low, high), (first, last) = term.matrix.rows, term.matrix.columns
        turned = "'" if term.matrix.transposed else ""
        matrix = f"{name(term.matrix.value)}{turned}[{low}:{high},{first}:{last}]"
        return f"{sign} {of(term.left)} @ {matrix}"
    if isinstance(term, Bias):
        return f"{sign} {name(term.value)}/{term.axis}[{term.low}:{term.high}]"
    assert isinstance(term, Other)
    return f"{sign} other {of(term.part)}"


X_W = "+ x/2[0:5] trips 0 @ W[0:5,0:8]"
H_R = "+ h/1[0:8] @ R[0:8,0:8]"


def gate(t: Body) -> Value:
    return t.add(t.product(t.row(t.x), t.W), t.product(t.h, t.R))


SUMS: dict[str, tuple[Callable[[Body], Value], list[str]]] = {
    "products": (gate, [X_W, H_R]),
    "state": (lambda t: t.add(t.h, t.product(t.h, t.R)), ["+ other h/1[0:8]", H_R]),
    "negative": (lambda t: t.b.Neg(gate(t)), ["-" + X_W[1:], "-" + H_R[1:]]),
    "difference": (
        lambda t: t.b.Sub(t.b.Neg(t.product(t.h, t.R)), t.b.Sub(t.c, t.product(t.row(t.x), t.W))),
        ["-" + H_R[1:], "- c/-1[0:8]", X_W],
    ),
    "bias": (lambda t: t.add(t.c, t.product(t.h, t.R)), ["+ c/-1[0:8]", H_R]),
    "bias-of-a-line": (lambda t: t.b.Sub(t.product(t.h, t.R), t.line), [H_R, "- line/-1[0:8]"]),
    "bias-of-one-number": (lambda t: t.add(t.product(t.h, t.R), t.n), [H_R, "+ n/-1[0:8]"]),
    "bias-of-each-row": (
        lambda t: t.add(t.product(t.h, t.R), t.column), ["+ other Add/1[0:8]"]
    ),
    "bias-of-all": (
        lambda t: t.add(t.product(t.h, t.R), t.all), [H_R, "+ other all/1[0:8]"]
    ),
    "vector-that-changes": (
        lambda t: t.add(t.product(t.h, t.R), t.product(t.b.unsqueeze(t.row(t.v), [0]), t.W)),
        ["+ other Add/1[0:8]"],
    ),
    "from-the-left": (
        lambda t: t.b.transpose(t.product(t.T, t.b.transpose(t.row(t.x), [1, 0])), [1, 0]),
        ["+ x/2[0:5] trips 0 @ T'[0:5,0:8]"],
    ),
    "gemm": (
        lambda t: t.b.Gemm(t.row(t.x), t.W, t.c), [X_W, "+ c/-1[0:8]"]
    ),
    "gemm-of-the-transpose": (
        lambda t: t.b.Gemm(t.row(t.x), t.T, transB=1), ["+ x/2[0:5] trips 0 @ T'[0:5,0:8]"]
    ),
    "gemm-with-a-column": (
        lambda t: t.b.Gemm(t.row(t.x), t.W, t.column), ["+ other Gemm/1[0:8]"]
    ),
    "gemm-scaled": (lambda t: t.b.Gemm(t.row(t.x), t.W, alpha=2.0), ["+ other Gemm/1[0:8]"]),
    "gemm-turned": (
        lambda t: t.b.Gemm(t.b.transpose(t.row(t.x), [1, 0]), t.W, transA=1),
        ["+ other Gemm/1[0:8]"],
    ),
    "matrix-of-the-trip": (
        lambda t: t.product(t.h, t.b.Neg(t.product(t.b.transpose(t.h, [1, 0]), t.h))),
        ["+ other MatMul_1/1[0:8]"],
    ),
    "row-turned-round": (
        lambda t: t.product(t.b.Gather(t.x, t.b.Sub(t.b.i64(TRIPS - 1), t.i), axis=0), t.W),
        [f"+ x/2[0:5] trips 0 -1:{INT64_MIN}:-1=4 @ W[0:5,0:8]"],
    ),
    "row-before": (
        lambda t: t.product(t.b.Gather(t.x, t.b.Sub(t.b.i64(TRIPS), t.i), axis=0), t.W),
        ["+ Gather/1[0:5] @ W[0:5,0:8]"],
    ),
    "row-of-another-axis": (
        lambda t: t.product(t.row(t.b.transpose(t.x, [1, 0, 2]), 1), t.W),
        ["+ Gather/1[0:5] @ W[0:5,0:8]"],
    ),
    "joined": (
        lambda t: t.product(t.b.concat([t.row(t.x), t.h], 1), t.joined),
        ["+ x/2[0:5] trips 0 @ joined[0:5,0:8]", "+ h/1[0:8] @ joined[5:13,0:8]"],
    ),
    "joined-counted-from-the-end": (
        lambda t: t.product(t.b.concat([t.h, t.row(t.x)], -1), t.joined),
        ["+ h/1[0:8] @ joined[0:8,0:8]", "+ x/2[0:5] trips 0 @ joined[8:13,0:8]"],
    ),
    "joined-and-cut": (
        lambda t: t.product(
            t.b.slice(t.b.concat([t.row(t.x), t.h, t.row(t.x)], 1), [3], [16], axes=[1]), t.joined
        ),
        [
            "+ x/2[3:5] trips 0 @ joined[0:2,0:8]",
            "+ h/1[0:8] @ joined[2:10,0:8]",
            "+ x/2[0:3] trips 0 @ joined[10:13,0:8]",
        ],
    ),
    "joined-twice": (
        lambda t: t.product(
            t.b.concat([t.b.concat([t.row(t.x), t.b.slice(t.h, [2], [4], axes=[1])], 1),
                        t.b.slice(t.h, [0], [6], axes=[1])], 1),
            t.joined,
        ),
        [
            "+ x/2[0:5] trips 0 @ joined[0:5,0:8]",
            "+ h/1[2:4] @ joined[5:7,0:8]",
            "+ h/1[0:6] @ joined[7:13,0:8]",
        ],
    ),
    "of-a-softmax": (
        lambda t: t.product(t.b.Softmax(t.h, axis=1), t.R), ["+ Softmax/1[0:8] @ R[0:8,0:8]"]
    ),
    "rows-joined": (
        lambda t: t.product(
            t.b.concat([t.b.slice(t.h, [0], [1], axes=[0]), t.b.slice(t.h, [1], [3], axes=[0])], 0),
            t.R,
        ),
        ["+ Concat/1[0:8] @ R[0:8,0:8]"],
    ),
    "unknown-operator": (lambda t: t.b.Abs(gate(t)), ["+ other Abs/1[0:8]"]),
    "foreign-copy": (lambda t: foreign(t.b.Identity(gate(t))), ["+ other Identity/1[0:8]"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_terms(name: str) -> None:
    make, expected = SUMS[name]
    assert terms_of(make) == expected


PROJECTED: dict[str, tuple[Callable[[Body], Value], list[str]]] = {
    "product": (lambda t: t.product(t.x, t.W), [X_W]),
    "with-a-bias": (lambda t: t.add(t.product(t.x, t.W), t.c), [X_W, "+ c/-1[0:8]"]),
    "with-a-line": (lambda t: t.add(t.product(t.x, t.W), t.line), [X_W, "+ line/-1[0:8]"]),
    "with-a-bias-for-each-trip": (
        lambda t: t.add(t.product(t.x, t.W), t.once), ["+ other Add/2[0:8] trips 0"]
    ),
    "with-rows": (
        lambda t: t.b.Sub(t.g, t.product(t.x, t.W)),
        ["+ other g/2[0:8] trips 0", "-" + X_W[1:]],
    ),
    "in-another-order": (
        lambda t: t.b.transpose(t.product(t.b.transpose(t.x, [1, 0, 2]), t.W), [1, 0, 2]),
        ["+ x/2[0:5] trips 0 @ W[0:5,0:8]"],
    ),
    "with-an-axis-of-one": (
        lambda t: t.b.squeeze(t.product(t.b.unsqueeze(t.x, [1]), t.W), [1]), [X_W]
    ),
    "over-the-trips": (
        lambda t: t.b.transpose(t.product(t.T, t.b.transpose(t.v, [1, 0])), [1, 0]),
        ["+ v/1[0:5] trips 0 @ T'[0:5,0:8]"],
    ),
    "backwards": (
        lambda t: t.b.slice(t.product(t.x, t.W), [-1], [-9], [-1], [0]),
        ["+ x/2[0:5] trips 0 -1:-9:-1=4 @ W[0:5,0:8]"],
    ),
    "backwards-twice": (
        lambda t: t.b.slice(
            t.product(t.b.slice(t.x, [-1], [-9], [-1], [0]), t.W), [-1], [-9], [-1], [-3]
        ),
        ["+ x/2[0:5] trips 0 -1:-9:-1=4 -1:-9:-1=4 @ W[0:5,0:8]"],
    ),
    "backwards-and-forwards": (
        lambda t: t.b.slice(
            t.b.slice(t.product(t.b.concat([t.x, t.x], 0), t.W), [-1], [-9], [-1], [0]),
            [2],
            [6],
            axes=[-3],
        ),
        ["+ Concat/2[0:5] trips 0 -1:-9:-1=8 2:6:1=4 @ W[0:5,0:8]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROJECTED)
def test_terms_of_what_is_projected_before(name: str) -> None:
    before, expected = PROJECTED[name]
    assert terms_of(lambda t: t.row(t.outer), before=before) == expected


PARTS: dict[str, tuple[Callable[[Body], Value], tuple[int, int], list[str]]] = {
    "columns-of-matrices": (
        gate, (2, 4), ["+ x/2[0:5] trips 0 @ W[0:5,2:4]", "+ h/1[0:8] @ R[0:8,2:4]"]
    ),
    "slice": (
        lambda t: t.b.slice(gate(t), [3], [7], axes=[1]),
        (1, 4),
        ["+ x/2[0:5] trips 0 @ W[0:5,4:7]", "+ h/1[0:8] @ R[0:8,4:7]"],
    ),
    "every-other": (
        lambda t: t.b.slice(t.b.Neg(t.h), [0], [8], [2], [1]), (0, 4), ["+ other Slice/1[0:4]"]
    ),
    "slice-of-rows": (
        lambda t: t.b.slice(t.b.Neg(t.h), [1], [3], axes=[0]), (0, 8), ["+ other Slice/1[0:8]"]
    ),
    "second-of-a-split": (
        lambda t: t.b.outputs("Split", t.b.Neg(t.h), t.b.i64([3, 5]), axis=1, n_outputs=2)[1],
        (1, 4),
        ["- other h/1[4:7]"],
    ),
    "split-rows": (
        lambda t: t.b.outputs("Split", t.b.Neg(t.h), t.b.i64([1, 2]), axis=0, n_outputs=2)[1],
        (1, 4),
        ["+ other Split:1/1[1:4]"],
    ),
    "first-of-joined": (
        lambda t: t.b.concat([t.b.Neg(t.h), t.product(t.h, t.R)], 1), (0, 8), ["- other h/1[0:8]"]
    ),
    "within-the-last-joined": (
        lambda t: t.b.concat([t.b.Neg(t.h), t.product(t.h, t.R)], 1),
        (9, 11),
        ["+ h/1[0:8] @ R[0:8,1:3]"],
    ),
    "across-what-is-joined": (
        lambda t: t.b.concat([t.b.Neg(t.h), t.product(t.h, t.R)], 1),
        (7, 11),
        ["+ other Concat/1[7:11]"],
    ),
    "joined-rows": (
        lambda t: t.b.concat([t.b.Neg(t.h), t.product(t.h, t.R)], 0),
        (0, 8),
        ["+ other Concat/1[0:8]"],
    ),
    "part-of-a-bias": (lambda t: t.add(t.b.Neg(t.h), t.c), (2, 5),
                       ["- other h/1[2:5]", "+ c/-1[2:5]"]),
    "part-of-a-reshape": (
        lambda t: t.b.reshape(t.b.Neg(t.h), (1, BATCH, 1, WIDTH)), (2, 5), ["- other h/1[2:5]"]
    ),
    "part-of-another-shape": (
        lambda t: t.b.reshape(t.b.Neg(t.h), (2 * BATCH, 4)), (2, 4), ["+ other Reshape/1[2:4]"]
    ),
    "part-of-a-transpose": (
        lambda t: t.b.transpose(t.b.unsqueeze(t.b.Neg(t.h), [0]), [1, 0, 2]),
        (2, 5),
        ["- other h/1[2:5]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_terms_of_parts(name: str) -> None:
    make, part, expected = PARTS[name]
    assert terms_of(make, part) == expected
