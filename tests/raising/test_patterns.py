"""What patterns match, and what their names then stand for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import foreign, model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.notes import note_origin
from hlo2onnx.raising.patterns import (
    ROUNDING,
    As,
    Constant,
    Either,
    Name,
    Number,
    Op,
    Origin,
    Pattern,
    Product,
    Sum,
    match,
)

Value = oir.Value
Build = Callable[[GraphBuilder, Value, Value], Value]
ONES = np.ones(3, np.float32)
X, Y = Name("x"), Name("y")


def found(pattern: Pattern, build: Build) -> dict[str, str] | None:
    """What the names of a pattern stand for: an argument, a constant, or the operator that
    made it."""
    known: list[dict[str, str] | None] = []

    def whole(b: GraphBuilder, x: Value, y: Value) -> Value:
        made = build(b, x, y)
        bound = match(pattern, made)
        known.append(None if bound is None else {n: _shown(v) for n, v in bound.items()})
        return made

    model_of(whole, {"x": ONES, "y": ONES})
    return known[0]


def _shown(value: Value) -> str:
    node = value.producer()
    if value.const_value is not None:
        return "constant"
    return node.op_type if node is not None else str(value.name)


def k(b: GraphBuilder, number: float) -> Value:
    return b.scalar(number, oir.DataType.FLOAT)


def with_origin(b: GraphBuilder, x: Value, name: str, *operands: Value) -> Value:
    made: Value = b.Exp(x)
    note_origin(made, name, operands)
    return made


BOTH = {"x": "x", "y": "y"}
MATCHES: dict[str, tuple[Pattern, Build, dict[str, str] | None]] = {
    "any value": (X, lambda b, x, y: x, {"x": "x"}),
    "an operator": (Op("Sub", X, Y), lambda b, x, y: b.Sub(x, y), BOTH),
    "its operands in order": (
        Op("Sub", X, Y), lambda b, x, y: b.Sub(y, x), {"x": "y", "y": "x"}
    ),
    "another operator": (Op("Sub", X, Y), lambda b, x, y: b.Add(x, y), None),
    "of another domain": (Op("Exp", X), lambda b, x, y: foreign(b.Exp(x)), None),
    "an argument": (Op("Exp", X), lambda b, x, y: x, None),
    "fewer operands": (Op("Max", X, Y), lambda b, x, y: b.Max(x), None),
    "more operands": (Op("Max", X), lambda b, x, y: b.Max(x, y), None),
    "the same twice": (Op("Sub", X, X), lambda b, x, y: b.Sub(x, x), {"x": "x"}),
    "another one": (Op("Sub", X, X), lambda b, x, y: b.Sub(x, y), None),
    "under a name": (As("e", Op("Exp", X)), lambda b, x, y: b.Exp(x), {"e": "Exp", "x": "x"}),
    "under a name that is taken": (
        Op("Sub", X, As("x", Op("Exp", Y))), lambda b, x, y: b.Sub(x, b.Exp(y)), None
    ),
    "a number": (Op("Div", X, 2.0), lambda b, x, y: b.Div(x, k(b, 2)), {"x": "x"}),
    "another number": (Op("Div", X, 2.0), lambda b, x, y: b.Div(x, k(b, 3)), None),
    "no number": (Op("Div", X, 2.0), lambda b, x, y: b.Div(x, y), None),
    "several numbers": (Op("Div", X, 1.0), lambda b, x, y: b.Div(x, b.const(ONES)), None),
    "a constant": (Op("Div", X, Constant("c")), lambda b, x, y: b.Div(x, k(b, 2)),
                   {"x": "x", "c": "constant"}),
    "no constant": (Op("Div", X, Constant("c")), lambda b, x, y: b.Div(x, y), None),
    "a sum": (Sum(X, Op("Exp", Y)), lambda b, x, y: b.Add(b.Exp(y), x), BOTH),
    "a sum with a number": (Sum(1.0, Op("Exp", X)), lambda b, x, y: b.Add(b.Exp(x), k(b, 1)),
                            {"x": "x"}),
    "a sum with another number": (
        Sum(1.0, Op("Exp", X)), lambda b, x, y: b.Add(b.Exp(x), k(b, 2)), None
    ),
    "a sum of numbers": (Sum(1.0, Constant("c")), lambda b, x, y: b.Add(k(b, 2), k(b, 1)),
                         {"c": "constant"}),
    "a sum without a number": (Sum(1.0, Op("Exp", X)), lambda b, x, y: b.Add(b.Exp(x), y), None),
    "a longer sum": (
        Sum(1.0, Op("Exp", X), Op("Sin", Y)),
        lambda b, x, y: b.Add(b.Add(k(b, 1), b.Sin(y)), b.Exp(x)), BOTH,
    ),
    "grouped otherwise": (
        Sum(1.0, Op("Exp", X), Op("Sin", Y)),
        lambda b, x, y: b.Add(b.Sin(y), b.Add(b.Exp(x), k(b, 1))), BOTH,
    ),
    "fewer terms": (
        Sum(1.0, Op("Exp", X), Op("Sin", Y)), lambda b, x, y: b.Add(k(b, 1), b.Exp(x)), None
    ),
    "a term twice": (
        Sum(Op("Exp", X), Op("Sin", Y)), lambda b, x, y: b.Add(b.Exp(x), b.Exp(x)), None
    ),
    "a term left out": (
        Sum(Op("Exp", X), Op("Sin", X), Op("Cos", X)),
        lambda b, x, y: b.Add(b.Add(b.Exp(x), b.Sin(x)), b.Sin(x)), None,
    ),
    "a product": (Product(X, Y, 0.5), lambda b, x, y: b.Mul(x, b.Mul(k(b, 0.5), y)), BOTH),
    "a product is no sum": (Sum(X, Op("Exp", Y)), lambda b, x, y: b.Mul(x, b.Exp(y)), None),
    "a sum of another domain": (
        Sum(X, Op("Exp", Y)), lambda b, x, y: foreign(b.Add(x, b.Exp(y))), None
    ),
    "an expansion": (
        Origin("chlo.erf", X), lambda b, x, y: with_origin(b, y, "chlo.erf", x), {"x": "x"}
    ),
    "another expansion": (
        Origin("chlo.erf", X), lambda b, x, y: with_origin(b, y, "chlo.erfc", x), None
    ),
    "no expansion": (Origin("chlo.erf", X), lambda b, x, y: b.Erf(x), None),
    "the second of two": (
        Either(Op("Sin", X), Op("Cos", X)), lambda b, x, y: b.Cos(x), {"x": "x"}
    ),
    "neither": (Either(Op("Sin", X), Op("Cos", X)), lambda b, x, y: b.Exp(x), None),
    "an extreme": (Op("Max", 0.0, X), lambda b, x, y: b.Max(x, k(b, 0)), {"x": "x"}),
    "another extreme": (Op("Max", 0.0, X), lambda b, x, y: b.Min(x, k(b, 0)), None),
}  # fmt: skip


@pytest.mark.parametrize("name", MATCHES)
def test_matches(name: str) -> None:
    pattern, build, expected = MATCHES[name]
    assert found(pattern, build) == expected


@pytest.mark.parametrize("number", [0.1, -3.0, 1e20])
def test_how_close_a_number_is(number: float) -> None:
    for off, fits in ((0.0, True), (ROUNDING / 2, True), (-ROUNDING / 2, True), (4e-7, False)):
        near = number * (1 + off)
        assert (found(Number(number), lambda b, x, y: k(b, near)) is not None) == fits  # noqa: B023


def test_zero_is_exact() -> None:
    assert found(Number(0), lambda b, x, y: k(b, 0)) == {}
    assert found(Number(0), lambda b, x, y: k(b, -0.0)) == {}
    assert found(Number(0), lambda b, x, y: k(b, 1e-30)) is None
