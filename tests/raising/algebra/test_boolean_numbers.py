"""Products with booleans cast to numbers, and 1 less such numbers, on small graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite
from rule_names import rule

from hlo2onnx.ir.builder import GraphBuilder

B, V, T = GraphBuilder, oir.Value, oir.DataType
C = np.array([True, False, True, False])
NUMBERS = {
    T.INT32: np.array([5, -7, 2**31 - 1, -(2**31)], np.int32),
    T.INT64: np.array([5, -7, 2**63 - 1, -(2**63)], np.int64),
    T.FLOAT: np.array([np.nan, np.inf, 3, -0.0], np.float32),
}


def product(dtype: oir.DataType, swapped: bool = False) -> Build:
    def build(b: B, c: V, x: V) -> V:
        pair = [x, b.cast(c, dtype)]
        return b.Mul(*pair[:: -1 if swapped else 1])  # type: ignore[no-any-return]

    return build


def of_constant(number: object, dtype: oir.DataType = T.FLOAT) -> Build:
    def build(b: B, c: V, x: V) -> V:
        return b.Mul(b.cast(c, dtype), b.const(np.asarray(number, dtype.numpy())))  # type: ignore[no-any-return]

    return build


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("dtype", [T.INT32, T.INT64])
def test_products_of_integers(dtype: oir.DataType, swapped: bool) -> None:
    inputs = {"c": C, "x": NUMBERS[dtype]}
    Rewrite(product(dtype, swapped), inputs, rule("product-with-boolean")).gives("Where")


@pytest.mark.parametrize("number", [1e-6, 0.0, [2, 0, 1e38, 1], [[3], [1e-40]]])
@pytest.mark.parametrize("dtype", [T.FLOAT, T.DOUBLE])
def test_products_of_constants(dtype: oir.DataType, number: object) -> None:
    inputs = {"c": C, "x": NUMBERS[T.FLOAT]}
    Rewrite(of_constant(number, dtype), inputs, rule("product-with-boolean")).gives("Where")


def product_of_shared(b: B, c: V, x: V) -> Sequence[V]:
    number = b.cast(c, T.INT32)
    return [b.Mul(b.cast(x, T.INT32), number), b.Neg(number)]


OTHER_PRODUCTS: dict[str, Build] = {
    "any floats": product(T.FLOAT),
    "a negative constant": of_constant(-1),
    "-0": of_constant(-0.0),
    "infinity": of_constant(np.inf),
    "NaN": of_constant([1, 2, np.nan, 3]),
    "another reader": product_of_shared,
    "no boolean": lambda b, c, x: b.Mul(b.cast(b.Abs(x), T.FLOAT), x),
    "an integer that is cast": lambda b, c, x: b.Mul(
        b.cast(b.ReduceSum(b.cast(c, T.INT32)), T.FLOAT), b.scalar(2, T.FLOAT)
    ),
}


@pytest.mark.parametrize("name", OTHER_PRODUCTS)
def test_other_products(name: str) -> None:
    inputs = {"c": C, "x": NUMBERS[T.FLOAT][2:3] * np.ones(4, np.float32)}
    Rewrite(OTHER_PRODUCTS[name], inputs, rule("product-with-boolean")).nothing()


def complement(dtype: oir.DataType, one: object = 1) -> Build:
    def build(b: B, c: V) -> V:
        return b.Sub(b.const(np.asarray(one, dtype.numpy())), b.cast(c, dtype))  # type: ignore[no-any-return]

    return build


@pytest.mark.parametrize("dtype", [T.INT32, T.INT64, T.FLOAT, T.DOUBLE])
def test_complements(dtype: oir.DataType) -> None:
    Rewrite(complement(dtype), {"c": C}, rule("complement-of-boolean")).gives("Not", "Cast")


def complement_of_shared(b: B, c: V) -> Sequence[V]:
    number = b.cast(c, T.INT32)
    return [b.Sub(b.scalar(1, T.INT32), number), b.Neg(number)]


def complement_of_cast_twice(b: B, c: V) -> Sequence[V]:
    """Equal casts become one."""
    one, other = b.cast(c, T.INT32), b.op("Cast", c, to=T.INT32)
    return [b.Sub(b.scalar(1, T.INT32), one), b.Neg(other)]


OTHER_COMPLEMENTS: dict[str, Build] = {
    "2 - c": complement(T.INT32, 2),
    "more axes": complement(T.INT32, [[1]]),
    "several numbers": complement(T.INT32, [1, 2, 1, 1]),
    "c - 1": lambda b, c: b.Sub(b.cast(c, T.INT32), b.scalar(1, T.INT32)),
    "another reader": complement_of_shared,
    "another cast": complement_of_cast_twice,
    "an integer": lambda b, c: b.Sub(
        b.scalar(1, T.INT64), b.cast(b.ReduceSum(b.cast(c, T.INT32)), T.INT64)
    ),
}


@pytest.mark.parametrize("name", OTHER_COMPLEMENTS)
def test_other_complements(name: str) -> None:
    Rewrite(OTHER_COMPLEMENTS[name], {"c": C}, rule("complement-of-boolean")).nothing()
