"""Selections and conditions in fewer nodes: single graphs, with near-misses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, fires, model_of, run_model
from rule_names import rule
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.targets import load_target

B, V, T = GraphBuilder, oir.Value, oir.DataType
TRUE, FALSE = np.array(True), np.array(False)
C = np.array([True, False, True, False])
D = np.array([True, True, False, False])
X = np.array([np.nan, -0.0, np.inf, 3], np.float32)
Y = np.array([1, -2, -np.inf, np.nan], np.float32)
K = np.array([-(2**31), 0, 2**31 - 1, 5], np.int32)
INPUTS = {"c": C, "d": D, "x": X, "y": Y, "k": K}

Build = Callable[[B, V, V, V, V, V], V]


def reduced(op: str, through: oir.DataType = T.UINT8, back: oir.DataType = T.BOOL) -> Build:
    def build(b: B, c: V, d: V, x: V, y: V, k: V) -> V:
        return b.cast(b.op(op, b.cast(c, through), b.i64([0]), keepdims=0), back)

    return build


def chosen(op: str, first: float, second: float, limit: float, swapped: bool = False) -> Build:
    """A comparison of one of two numbers."""

    def build(b: B, c: V, d: V, x: V, y: V, k: V) -> V:
        one, other, bound = (b.scalar(item, T.FLOAT) for item in (first, second, limit))
        compared = [b.Where(c, one, other), bound]
        return b.Identity(b.op(op, *compared[:: -1 if swapped else 1]))

    return build


def reduced_not(op: str, axes: bool = True) -> Build:
    def build(b: B, c: V, d: V, x: V, y: V, k: V) -> V:
        inputs = [b.Not(b.Less(b.unsqueeze(x, [1]), y)), *([b.i64([1])] if axes else [])]
        return b.op(op, *inputs, keepdims=0)

    return build


FIRES: dict[str, tuple[str, Build, str]] = {
    "choice": ("compare-choices", chosen("Equal", 2, 0, 2), "Identity"),
    "other choice": ("compare-choices", chosen("Equal", 2, 0, 0), "Identity Not"),
    "no choice": ("compare-choices", chosen("Equal", 2, 0, 1), "Expand Identity"),
    "less": ("compare-choices", chosen("Less", 2, np.nan, 3), "Identity"),
    "less than choice": ("compare-choices", chosen("Less", 2, 9, 3, True), "Identity Not"),
    "at least choice": ("compare-choices", chosen("GreaterOrEqual", 3, 2, 3, True),
                        "Expand Identity"),
    "at least": ("compare-choices", chosen("GreaterOrEqual", 3, 2, 3), "Identity"),
    "zeros": ("compare-choices", chosen("Equal", -0.0, 1, 0), "Identity"),
    "any not": ("reduce-of-not", reduced_not("ReduceMax"), "Less Not ReduceMin Unsqueeze"),
    "all not": ("reduce-of-not", reduced_not("ReduceMin"), "Less Not ReduceMax Unsqueeze"),
    "all axes not": ("reduce-of-not", reduced_not("ReduceMin", False),
                     "Less Not ReduceMax Unsqueeze"),
    "where-of-not": ("where-of-not", lambda b, c, d, x, y, k: b.Where(b.Not(c), x, y), "Where"),
    "nested": ("nested-where", lambda b, c, d, x, y, k: b.Where(c, b.Where(c, x, y), b.Neg(x)),
               "Neg Where"),
    "nested second": ("nested-where", lambda b, c, d, x, y, k: b.Where(c, x, b.Where(c, x, y)),
                      "Where"),
    "nested both": ("nested-where", lambda b, c, d, x, y, k: b.Where(
        c, b.Where(c, x, y), b.Where(c, x, y)), "Where"),
    "select": ("where-of-booleans", lambda b, c, d, x, y, k: b.Where(c, d, b.Less(x, y)),
               "And Less Xor Xor"),
    "select false": ("where-of-booleans", lambda b, c, d, x, y, k: b.Where(c, b.const(FALSE), d),
                     "And Not"),
    "select true": ("where-of-booleans", lambda b, c, d, x, y, k: b.Where(c, d, b.const(TRUE)),
                    "Not Or"),
    "select itself": ("where-of-booleans", lambda b, c, d, x, y, k: b.Where(c, c, d), "Or"),
    "select or itself": ("where-of-booleans", lambda b, c, d, x, y, k: b.Where(c, d, c), "And"),
    "select true or": ("where-of-booleans", lambda b, c, d, x, y, k: b.Where(c, b.const(TRUE), d),
                       "Or"),
    "select or false": ("where-of-booleans", lambda b, c, d, x, y, k: b.Where(c, d, b.const(FALSE)),
                        "And"),
    "not and": ("not-of-both", lambda b, c, d, x, y, k: b.And(b.Not(c), b.Not(d)), "Not Or"),
    "not or": ("not-of-both", lambda b, c, d, x, y, k: b.Or(b.Not(c), b.Not(d)), "And Not"),
    "not zero": ("not-equal-zero", lambda b, c, d, x, y, k: b.Not(b.Equal(k, b.scalar(0, T.INT32))),
                 "Cast"),
    "zero first": ("not-equal-zero", lambda b, c, d, x, y, k: b.Not(
        b.Equal(b.scalar(0, T.INT32), k)), "Cast"),
    "is nan": ("is-nan", lambda b, c, d, x, y, k: b.Not(b.Equal(x, x)), "IsNaN"),
    "any": ("reduce-booleans", reduced("ReduceMax"), "ReduceMax"),
    "all": ("reduce-booleans", reduced("ReduceMin", T.INT32), "ReduceMin"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRES)
def test_fewer_nodes(name: str) -> None:
    title, build, left = FIRES[name]
    if name.startswith("select"):  # ONNX Runtime does not run it before
        assert fires(build, INPUTS, rule(title))
        return
    Rewrite(build, INPUTS, rule(title)).gives(*left.split())


@pytest.mark.parametrize("name", [name for name in FIRES if name.startswith("select")])
def test_booleans_are_selected_exactly(name: str) -> None:
    """The graph before, with casts as legalization writes them, is compared with the one after."""
    _, build, left = FIRES[name]

    def both(b: B, c: V, d: V, x: V, y: V, k: V) -> V:
        chosen = build(b, c, d, x, y, k)
        node = chosen.producer()
        assert node is not None
        operands = [value for value in node.inputs[1:] if value is not None]
        numbers = [b.cast(value, T.UINT8) for value in operands]
        other = b.cast(b.Where(node.inputs[0], *numbers), T.BOOL)
        return b.Equal(chosen, other)

    model = model_of(both, INPUTS)
    apply_rules(model, [rule("where-of-booleans")], load_target("ort-cpu"))
    (equal,) = run_model(model, INPUTS)
    assert equal.all()
    assert all(op in [node.op_type for node in model.graph] for op in left.split())


def wide(b: B, c: V, d: V, x: V, y: V, k: V) -> V:
    """The operand that is dropped expands the others."""
    one, many = b.const(np.float32(1)), b.unsqueeze(x, [1])
    return b.Where(b.const(TRUE), b.Where(b.const(TRUE), one, many), one)


def shared_not(b: B, c: V, d: V, x: V, y: V, k: V) -> V:
    both = [b.Not(c), b.Not(d)]
    return b.Xor(b.And(*both), both[0])


def shared_comparison(op: str) -> Build:
    def build(b: B, c: V, d: V, x: V, y: V, k: V) -> V:
        compared = b.op(op, *((x, x) if op == "Equal" else (k, b.scalar(0, T.INT32))))
        return b.Xor(b.Not(compared), b.And(compared, c))

    return build


def expanding_limit(b: B, c: V, d: V, x: V, y: V, k: V) -> V:
    """The comparison has more elements than the condition."""
    numbers = (b.scalar(item, T.FLOAT) for item in (2, 0))
    return b.Equal(b.Where(c, *numbers), b.const(np.full((3, 1), 2, np.float32)))


def read_zero(b: B, c: V, d: V, x: V, y: V, k: V) -> V:
    is_zero = b.Equal(k, b.scalar(0, T.INT32))
    return b.Xor(b.Not(is_zero), b.And(is_zero, c))


def read_not(b: B, c: V, d: V, x: V, y: V, k: V) -> V:
    negated = b.Not(c)
    return b.And(b.ReduceMax(negated, b.i64([0]), keepdims=1), negated)


STAYS: dict[str, tuple[str, Build]] = {
    "computed choice": ("compare-choices", lambda b, c, d, x, y, k: b.Equal(
        b.Where(c, x, b.scalar(2, T.FLOAT)), b.scalar(2, T.FLOAT))),
    "several constants": ("compare-choices", lambda b, c, d, x, y, k: b.Equal(
        b.Where(c, b.const(np.arange(4)), b.i64(2)), b.i64(2))),
    "computed limit": ("compare-choices", lambda b, c, d, x, y, k: b.Equal(
        b.Where(c, b.scalar(1, T.FLOAT), b.scalar(2, T.FLOAT)), x)),
    "expanded condition": ("compare-choices", expanding_limit),
    "read negation": ("reduce-of-not", read_not),
    "where": ("where-of-not", lambda b, c, d, x, y, k: b.Where(c, x, y)),
    "another condition": (
        "nested-where", lambda b, c, d, x, y, k: b.Where(c, b.Where(d, x, y), y)
    ),
    "expanded": ("nested-where", wide),
    "one not": ("not-of-both", lambda b, c, d, x, y, k: b.And(b.Not(c), d)),
    "read not": ("not-of-both", shared_not),
    "not one": ("not-equal-zero",
                lambda b, c, d, x, y, k: b.Not(b.Equal(k, b.scalar(1, T.INT32)))),
    "not zero floats": ("not-equal-zero",
                        lambda b, c, d, x, y, k: b.Not(b.Equal(x, b.scalar(0, T.FLOAT)))),
    "not zero read": ("not-equal-zero", read_zero),
    "not zero expanded": ("not-equal-zero", lambda b, c, d, x, y, k: b.Not(
        b.Equal(k, b.const(np.zeros((2, 1), np.int32))))),
    "not zero less": ("not-equal-zero",
                      lambda b, c, d, x, y, k: b.Not(b.Less(k, b.scalar(0, T.INT32)))),
    "two values": ("is-nan", lambda b, c, d, x, y, k: b.Not(b.Equal(x, y))),
    "integers": ("is-nan", lambda b, c, d, x, y, k: b.Not(b.Equal(k, k))),
    "read equal": ("is-nan", shared_comparison("Equal")),
    "count": ("reduce-booleans", reduced("ReduceSum", T.INT32)),
    "number": ("reduce-booleans", reduced("ReduceMax", T.INT32, T.FLOAT)),
    "numbers": (
        "reduce-booleans",
        lambda b, c, d, x, y, k: b.cast(
            b.ReduceMax(b.cast(k, T.FLOAT), b.i64([0]), keepdims=0), T.BOOL),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_near_misses(name: str) -> None:
    title, build = STAYS[name]
    Rewrite(build, INPUTS, rule(title)).nothing()


@pytest.mark.parametrize("extent", [0, None, "n"])
def test_a_reduction_of_no_booleans(extent: int | str | None) -> None:
    """ONNX Runtime rejects it."""

    def build(b: B, c: V) -> V:
        numbers = b.cast(free(b, c, extent), T.UINT8)
        return b.cast(b.ReduceMax(numbers, b.i64([0]), keepdims=0), T.BOOL)

    Rewrite(build, {"c": C[:0]}, rule("reduce-booleans")).nothing()


def test_a_reduction_beside_an_extent_that_may_be_0() -> None:
    def build(b: B, c: V) -> V:
        numbers = b.cast(free(b, b.unsqueeze(c, [1]), len(C), "n"), T.UINT8)
        return b.cast(b.ReduceMax(numbers, b.i64([0]), keepdims=0), T.BOOL)

    Rewrite(build, {"c": C}, rule("reduce-booleans")).gives("Identity", "ReduceMax", "Unsqueeze")


def test_before_opset_20_nothing_reduces_booleans() -> None:
    Rewrite(reduced("ReduceMax"), INPUTS, rule("reduce-booleans"), opset=19).nothing()
