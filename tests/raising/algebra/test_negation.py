"""Negations move where they cost nothing; -0, NaN and overflow stay exact."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, model_of
from rule_names import rule

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_of
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.targets import load_target

EDGES = np.array([-0.0, 0.0, 1.5, -1e-40, np.inf, -np.inf, np.nan, 3e38], np.float32)
X, Y = (side.reshape(-1) for side in np.meshgrid(EDGES, EDGES))
INTEGERS = np.array([-(2**31), 2**31 - 1, 0, 7], np.int32)


def told_apart(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    """x and 1 / x, by which -0 is not 0."""
    return [x, b.Reciprocal(x)]


@pytest.mark.parametrize("swapped", [False, True])
def test_adding_a_negative(swapped: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        terms = (x, b.Neg(y))
        return told_apart(b, b.Add(*(terms[::-1] if swapped else terms)))

    Rewrite(build, {"x": X, "y": Y}, rule("add-neg-to-sub")).gives("Sub", "Reciprocal")


def test_subtracting_a_negative() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        return told_apart(b, b.Sub(x, b.Neg(y)))

    Rewrite(build, {"x": X, "y": Y}, rule("add-neg-to-sub")).gives("Add", "Reciprocal")


def test_a_negative_that_others_read() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        negative = b.Neg(y)
        return b.Mul(b.Add(x, negative), negative)

    Rewrite(build, {"x": X, "y": Y}, rule("add-neg-to-sub")).gives("Neg", "Sub", "Mul")


@pytest.mark.parametrize("op_type", ["Add", "Sub"])
def test_integers_wrap_alike(op_type: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.op(op_type, x, b.Neg(b.Identity(x)))

    rewrite = Rewrite(build, {"x": INTEGERS}, rule("add-neg-to-sub"))
    assert rewrite.nodes["Neg"] == 0


def test_two_negatives() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(b.Neg(x), b.Neg(y))

    Rewrite(build, {"x": X, "y": Y}, rule("add-neg-to-sub")).gives("Neg", "Sub")


def test_what_is_subtracted_from_stays_negative() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Sub(b.Neg(x), y)

    Rewrite(build, {"x": X, "y": Y}, rule("add-neg-to-sub")).nothing()


@pytest.mark.parametrize("op_type", ["Mul", "Div"])
@pytest.mark.parametrize("constant", [0.1, -3.0, 0.0, -0.0, np.inf])
@pytest.mark.parametrize("first", [False, True])
def test_a_constant_takes_the_sign(op_type: str, constant: float, first: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        factors = (b.scalar_like(constant, x), x)
        return told_apart(b, b.Neg(b.op(op_type, *(factors if first else factors[::-1]))))

    Rewrite(build, {"x": EDGES}, rule("fold-neg-into-constant")).gives(op_type, "Reciprocal")


@pytest.mark.parametrize("op_type", ["Mul", "Div"])
@pytest.mark.parametrize("constant", [0.1, -3.0, 0.0, -0.0, np.inf])
@pytest.mark.parametrize("first", [False, True])
def test_a_constant_takes_the_sign_of_its_factor(
    op_type: str, constant: float, first: bool
) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        factors = (b.scalar_like(constant, x), b.Neg(x))
        return told_apart(b, b.op(op_type, *(factors if first else factors[::-1])))

    Rewrite(build, {"x": EDGES}, rule("fold-neg-into-constant")).gives(op_type, "Reciprocal")


def test_negatives_that_others_read_keep_their_products() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        negative = b.Neg(x)
        return [b.Mul(negative, b.scalar_like(3, x)), b.Abs(negative)]

    Rewrite(build, {"x": EDGES}, rule("fold-neg-into-constant")).nothing()


def test_negatives_times_what_is_computed_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Mul(b.Neg(x), y)

    Rewrite(build, {"x": X, "y": Y}, rule("fold-neg-into-constant")).nothing()


def test_one_of_two_negative_factors() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Mul(b.Neg(b.const(EDGES)), b.Neg(x))

    Rewrite(build, {"x": EDGES}, rule("fold-neg-into-constant")).nothing()


def test_quotients_of_negative_integers_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Div(b.Neg(x), b.scalar_like(3, x))

    Rewrite(build, {"x": INTEGERS}, rule("fold-neg-into-constant")).nothing()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2])
def test_constants_keep_their_type(dtype: type) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Mul(x, b.scalar_like(2, x)))

    model = model_of(build, {"x": np.ones(3, dtype)})
    apply_rules(model, [rule("fold-neg-into-constant")], load_target("ort-cpu"))
    (product,) = model.graph
    constant = const_of(product.inputs[1])
    assert constant is not None and constant.dtype == dtype and constant == -2


def test_products_that_others_read_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        product = b.Mul(x, b.scalar_like(3, x))
        return [b.Neg(product), product]

    Rewrite(build, {"x": EDGES}, rule("fold-neg-into-constant")).nothing()


def test_products_of_what_is_computed_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Neg(b.Mul(x, y))

    Rewrite(build, {"x": X, "y": Y}, rule("fold-neg-into-constant")).nothing()


def test_integer_quotients_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Div(x, b.scalar_like(3, x)))

    Rewrite(build, {"x": INTEGERS}, rule("fold-neg-into-constant")).nothing()


def test_sums_without_a_negative_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        return [b.Add(x, b.Abs(y)), b.Sub(b.Abs(x), y)]

    Rewrite(build, {"x": X, "y": Y}, rule("add-neg-to-sub")).nothing()


def test_products_that_two_others_read_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        product = b.Mul(x, b.scalar_like(3, x))
        return [b.Neg(product), b.Abs(product)]

    Rewrite(build, {"x": EDGES}, rule("fold-neg-into-constant")).nothing()


def test_negatives_of_something_else_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        total = b.Add(x, b.scalar_like(3, x))
        return [b.Neg(x), b.Neg(total), b.Neg(b.Sub(b.scalar_like(3, x), x))]

    Rewrite(build, {"x": EDGES}, rule("fold-neg-into-constant")).nothing()
