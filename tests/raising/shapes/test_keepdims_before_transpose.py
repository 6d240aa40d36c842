"""Reductions beside transposed operands, as vmap writes softmax, and look-alikes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.unit_dims import KeepdimsBeforeTranspose

Value = oir.Value
X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)


def run(
    perm: Sequence[int] = (2, 0, 1, 3),
    inner: Sequence[int] = (2, 0, 1),
    dims: Sequence[int] = (4, 2, 3, 1),
    axes: Sequence[int] = (3,),
    keepdims: int = 0,
    has_sibling: bool = True,
    x: np.ndarray = X,
) -> Rewrite:
    """Transpose(x) and the Reshape of a transposed maximum."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        reduced = b.ReduceMax(x, b.i64(list(axes)), keepdims=keepdims)
        moved = b.Transpose(reduced, perm=list(inner))
        top = b.op("Reshape", moved, b.i64(list(dims)))
        return [b.Neg(top), b.Transpose(x if has_sibling else b.Abs(x), perm=list(perm))]

    return Rewrite(build, {"x": x}, KeepdimsBeforeTranspose())


def test_the_axis_comes_back() -> None:
    run().gives("ReduceMax", "Transpose", "Neg", "Transpose")


def test_the_axis_comes_back_in_the_middle() -> None:
    run((2, 1, 0, 3), (1, 0, 2), (4, 1, 2, 5), (1,)).gives(
        "ReduceMax", "Transpose", "Neg", "Transpose"
    )


def test_two_axes_come_back() -> None:
    run((3, 2, 0, 1), (1, 0), (5, 1, 2, 1), (1, 2)).gives(
        "ReduceMax", "Transpose", "Neg", "Transpose"
    )


def test_without_a_transposed_operand() -> None:
    run(has_sibling=False).nothing()


@pytest.mark.parametrize(
    ("perm", "inner", "dims"),
    [
        ((1, 0, 2, 3), (2, 0, 1), (4, 2, 3, 1)),
        ((2, 0, 1, 3), (2, 0, 1), (1, 4, 2, 3)),
        ((2, 0, 1, 3), (2, 0, 1), (4, 6, 1, 1)),
        ((2, 0, 1, 3), (2, 0, 1), (24,)),
    ],
    ids=["another order", "another place", "joined axes", "a vector"],
)
def test_other_reshapes(perm: Sequence[int], inner: Sequence[int], dims: Sequence[int]) -> None:
    run(perm, inner, dims).nothing()


def test_axes_of_equal_extents_in_another_order() -> None:
    x = np.arange(180, dtype=np.float32).reshape(3, 3, 4, 5)
    run((2, 1, 0, 3), (2, 0, 1), (4, 3, 3, 1), x=x).nothing()
    assert run((2, 1, 0, 3), (2, 1, 0), (4, 3, 3, 1), x=x).fired


def test_kept_axes() -> None:
    run(inner=(2, 0, 1, 3), keepdims=1).nothing()
