"""Extremes that are only compared, absolute values of what has no sign, factors of two."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_xla
from rewriting import Rewrite

from hlo2onnx.analysis.sign_bits import has_no_sign
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.negation import AddNegToSub, FoldPowerOfTwo
from hlo2onnx.raising.rules.algebra.selections import CompareExtreme
from hlo2onnx.raising.rules.algebra.simplification import RedundantAbs

T = oir.DataType
Value = oir.Value
ROWS = np.array(
    [[0.5, -3, 0.25], [1, 0, 0], [np.nan, 0, 0], [2, np.nan, 0], [np.inf, 1, 1], [0.25, 0, -0.0]],
    np.float32,
)
EDGES = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1e-38, 1.1, -1.7e38, 1.7e38, 3.4e38, np.inf, -np.inf, np.nan],
    np.float32,
)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("extreme", "compare", "fires"),
    [
        ("ReduceMax", "Less", True),
        ("ReduceMax", "LessOrEqual", True),
        ("ReduceMin", "Greater", True),
        ("ReduceMin", "GreaterOrEqual", True),
        ("ReduceMax", "Greater", False),
        ("ReduceMin", "LessOrEqual", False),
    ],
)
def test_all_elements_are_compared(extreme: str, compare: str, fires: bool, swapped: bool) -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        found = b.op(extreme, x, b.i64([1]), keepdims=0)
        pair = (found, b.scalar(1, T.FLOAT))
        if not swapped:
            return b.op(compare, *pair)
        name = compare.replace("Less", "?").replace("Greater", "Less").replace("?", "Greater")
        return b.op(name, *pair[::-1])

    rewrite = Rewrite(build, {"x": ROWS[np.isfinite(ROWS).all(1)]}, CompareExtreme())
    assert bool(rewrite.fired) == fires


def test_nan_is_not_below() -> None:
    """As in XLA, whose extreme of numbers beside NaN is NaN."""
    program = jax.jit(lambda x: (x.max(1) < 1, x.min(1) >= 0, jnp.abs(x).max(1))).lower(ROWS)
    run = against_xla(program.as_text(), ROWS).bit_exact()
    assert run.program.report.rules["compare-extreme"] == 2


def test_extremes_that_stay() -> None:
    def read(b: GraphBuilder, x: Value) -> list[Value]:
        found = b.ReduceMax(x, b.i64([1]), keepdims=0)
        return [b.Less(found, b.scalar(1, T.FLOAT)), found]

    def many(b: GraphBuilder, x: Value) -> Value:
        tall = b.expand(b.unsqueeze(x, [2]), (3, 3, 100))
        return b.Less(b.ReduceMax(tall, b.i64([2]), keepdims=0), b.scalar(1, T.FLOAT))

    def several(b: GraphBuilder, x: Value) -> Value:
        limits = b.const(np.float32([1, 2, 3]))
        return b.Less(b.ReduceMax(x, b.i64([1]), keepdims=0), limits)

    def known(b: GraphBuilder, x: Value) -> Value:
        numbers = b.Cast(b.Less(x, b.scalar(0, T.FLOAT)), to=T.FLOAT)
        return b.Less(b.ReduceMax(numbers, b.i64([1]), keepdims=0), b.scalar(1, T.FLOAT))

    for build in (read, many, several, known):
        assert not Rewrite(build, {"x": ROWS[[0, 1, 5]]}, CompareExtreme()).fired


@pytest.mark.parametrize("k", [1.0, -1.5, 100.0, 1e37])
@pytest.mark.parametrize("power", [1.0, 2.0, -4.0])
def test_powers_of_two_are_folded(k: float, power: float) -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        made = b.Mul(b.scalar(k, T.FLOAT), b.Mul(x, b.scalar(power, T.FLOAT)))
        return [made, b.Reciprocal(made)]

    rewrite = Rewrite(build, {"x": EDGES}, FoldPowerOfTwo())
    assert rewrite.nodes["Mul"] == 1


@pytest.mark.parametrize(
    ("k", "power"), [(0.5, 2.0), (100.0, 0.5), (100.0, 3.0), (3e38, 4.0), (np.nan, 2.0)]
)
def test_factors_that_would_round_otherwise(k: float, power: float) -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        return b.Mul(b.scalar(k, T.FLOAT), b.Mul(x, b.scalar(power, T.FLOAT)))

    Rewrite(build, {"x": EDGES}, FoldPowerOfTwo()).nothing()


def test_a_product_that_others_read() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        inner = b.Mul(x, b.scalar(2, T.FLOAT))
        return [b.Mul(b.scalar(3, T.FLOAT), inner), b.Exp(inner)]

    Rewrite(build, {"x": EDGES}, FoldPowerOfTwo()).nothing()


@pytest.mark.parametrize("op_type", ["Add", "Sub"])
@pytest.mark.parametrize("first", [False, True])
def test_a_negative_in_a_product(op_type: str, first: bool) -> None:
    def build(b: GraphBuilder, x: Value, y: Value) -> list[Value]:
        factors = (b.Neg(x), y)
        made = b.op(op_type, y, b.Mul(*(factors if first else factors[::-1])))
        return [made, b.Reciprocal(made)]

    x, y = (side.reshape(-1) for side in np.meshgrid(EDGES, EDGES))
    rewrite = Rewrite(build, {"x": x, "y": y}, AddNegToSub())
    rewrite.gives("Mul", "Sub" if op_type == "Add" else "Add", "Reciprocal")


def test_a_negative_in_a_product_that_others_read() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        product = b.Mul(b.Neg(x), x)
        return [b.Add(x, product), b.Exp(product)]

    Rewrite(build, {"x": EDGES}, AddNegToSub()).nothing()


def test_absolute_values_without_effect() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        absolute = b.Abs(x)
        scale = b.Add(b.scalar(1e-4, T.FLOAT), b.Mul(b.scalar(1e-4, T.FLOAT), absolute))
        quotient = b.Abs(b.Div(absolute, scale))
        return [quotient, b.Abs(b.Mul(x, x)), b.Abs(b.Sqrt(b.Exp(x)))]

    rewrite = Rewrite(build, {"x": EDGES}, RedundantAbs())
    assert rewrite.nodes["Abs"] == 1


def test_absolute_values_that_stay() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        absolute = b.Abs(x)
        return [
            b.Abs(b.Sub(absolute, b.scalar(1, T.FLOAT))),
            b.Abs(b.Mul(absolute, x)),
            b.Abs(b.Mul(absolute, b.scalar(-0.0, T.FLOAT))),
            b.Abs(b.Sqrt(x)),
            b.Abs(b.Max(absolute, x)),
        ]

    Rewrite(build, {"x": EDGES}, RedundantAbs()).nothing()


def test_an_extreme_of_none_has_a_sign() -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        return b.Identity(b.ReduceMax(b.Abs(x), b.i64([0]), keepdims=0))

    rewrite = Rewrite(build, {"x": EDGES})
    (reduction,) = (n for n in rewrite.model.graph if n.op_type == "ReduceMax")
    assert not has_no_sign(reduction.outputs[0])


def test_many_shared_operands_have_no_sign() -> None:
    """Each sum adds the one before to itself: there are more paths than a translation follows."""

    def build(b: GraphBuilder, x: Value) -> Value:
        total = b.Abs(x)
        for _ in range(40):
            total = b.Add(total, total)
        return b.Identity(total)

    rewrite = Rewrite(build, {"x": EDGES})
    *_, last = (node for node in rewrite.model.graph if node.op_type == "Add")
    assert has_no_sign(last.outputs[0])
