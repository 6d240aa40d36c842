"""Products and Transposes that the rules must leave where they are."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Refusal
from hlo2onnx.raising.rules.nn.matmul import MatMulTranspose
from hlo2onnx.raising.rules.shapes.transpose import (
    SinkTranspose,
    splits,
)

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 7
Y = np.arange(48, dtype=np.float32).reshape(2, 4, 6) % 5
LAST = (0, 2, 1)


def turned(b: GraphBuilder, x: oir.Value, perm: tuple[int, ...] = LAST) -> oir.Value:
    return b.Transpose(x, perm=perm)


def product(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    """x times y, both transposed to and fro before."""
    return b.MatMul(turned(b, b.Neg(turned(b, x))), turned(b, b.Neg(turned(b, y))))


SWAPS: dict[str, tuple[Build, bool]] = {
    "itself": (lambda b, x, y: turned(b, product(b, x, y)), True),
    "by constants": (lambda b, x, y: turned(b, b.MatMul(b.const(X), b.const(Y))), True),
    "views of what is transposed": (
        lambda b, x, y: turned(
            b, b.MatMul(b.reshape(turned(b, b.reshape(x, (2, 4, 3)), LAST), (2, 3, 4)), b.const(Y))
        ),
        True,
    ),
    "no product": (lambda b, x, y: turned(b, b.Add(turned(b, y), turned(b, y))), False),
    "the left is not transposed": (
        lambda b, x, y: turned(b, b.MatMul(x, turned(b, b.Neg(turned(b, y))))),
        False,
    ),
    "the right is not transposed": (
        lambda b, x, y: turned(b, b.MatMul(turned(b, b.Neg(turned(b, x))), y)),
        False,
    ),
    "batches move": (lambda b, x, y: turned(b, product(b, x, y), (1, 0, 2)), False),
    "all move": (lambda b, x, y: turned(b, product(b, x, y), (2, 1, 0)), False),
    "a view that others read": (
        lambda b, x, y: (lambda v: [turned(b, v, (0, 2, 3, 1)), b.Abs(v)])(
            b.reshape(product(b, x, y), (2, 3, 2, 3))
        ),
        False,
    ),
    "a product that others read as well": (
        lambda b, x, y: (lambda p: [turned(b, b.reshape(p, (2, 3, 2, 3)), (0, 2, 3, 1)), b.Abs(p)])(
            product(b, x, y)
        ),
        False,
    ),
    "a result": (lambda b, x, y: (lambda p: [p, turned(b, p)])(product(b, x, y)), False),
    "a batch that is repeated": (
        lambda b, x, y: turned(
            b,
            b.MatMul(
                turned(b, b.slice(turned(b, x), [0], [1], axes=[0])), turned(b, b.Neg(turned(b, y)))
            ),
        ),
        False,
    ),
    "a matrix for each batch": (
        lambda b, x, y: turned(b, b.MatMul(turned(b, b.Neg(turned(b, x))), b.const(Y[0]))),
        False,
    ),
    "rows split": (
        lambda b, x, y: turned(
            b,
            b.reshape(product(b, y, b.const(np.ones((2, 6, 5), np.float32))), (2, 2, 2, 5)),
            (0, 3, 2, 1),
        ),
        True,
    ),
    "columns that were not joined": (
        lambda b, x, y: turned(b, b.reshape(product(b, x, y), (2, 3, 2, 3)), (0, 3, 2, 1)),
        True,
    ),
    "rows and columns mixed": (
        lambda b, x, y: turned(b, b.reshape(product(b, x, y), (2, 3, 2, 3)), (0, 2, 1, 3)),
        False,
    ),
    "rows and columns joined": (
        lambda b, x, y: turned(b, b.reshape(product(b, x, y), (2, 9, 2)), LAST),
        False,
    ),
}


@pytest.mark.parametrize("name", SWAPS)
def test_swap_product(name: str) -> None:
    build, fires = SWAPS[name]

    def whole(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        made = build(b, x, y)
        return [b.Neg(item) for item in ([made] if isinstance(made, oir.Value) else made)]

    def result(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value | list[oir.Value]:
        return build(b, x, y)  # type: ignore[return-value]

    rewrite = Rewrite(result if name == "a result" else whole, {"x": X, "y": Y}, MatMulTranspose())
    assert bool(rewrite.fired) == fires, rewrite.model


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
@pytest.mark.parametrize("joined", [True, False])
def test_columns_in_another_order(order: tuple[int, int], joined: bool) -> None:
    """Columns that were joined of the same axes are joined in the order that is asked for."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        left = turned(b, b.Neg(turned(b, x)))
        parts = turned(b, b.reshape(y, (2, 4, 2, 3) if joined else (2, 4, 3, 2)), (0, 1, 2, 3))
        right = b.reshape(b.Transpose(b.Neg(parts), perm=(0, 1, 2, 3)), (2, 4, 6))
        split = b.reshape(b.MatMul(left, right), (2, 3, 2, 3))
        return b.Neg(turned(b, split, (0, *order, 1)))

    rewrite = Rewrite(build, {"x": X, "y": Y}, MatMulTranspose())
    assert rewrite.fired
    merges = joined and order == (3, 2)
    perms = [tuple(node.attributes["perm"].as_ints()) for node in rewrite.model.graph
             if node.op_type == "Transpose"]  # fmt: skip
    assert ((0, 3, 2, 1) in perms) == merges
    assert ((0, 2, 1, 3) in perms) == (order == (3, 2) and not joined)


@pytest.mark.parametrize(
    ("old", "new", "groups"),
    [
        ((2, 6), (2, 3, 2), [[0], [1, 2]]),
        ((6, 1), (2, 3, 1), [[0, 1], [2]]),
        ((1, 4), (1, 4), [[0], [1]]),
        ((4,), (1, 4), [[0, 1]]),
        ((2, 6), (12,), None),
        ((6,), (2, 3, 1), None),
        ((4, 3), (2, 3, 2), None),
        ((2, 3), (2,), None),
    ],
)
def test_splits(old: tuple[int, ...], new: tuple[int, ...], groups: list[list[int]] | None) -> None:
    if groups is None:
        with pytest.raises(Refusal):
            splits(old, new)
    else:
        assert splits(old, new) == groups


# -- Transposes that stay ----------------------------

STAY: dict[str, Build] = {
    "an axis more": lambda b, x: b.Abs(
        b.Add(turned(b, x), b.const(np.ones((1, 1, 4, 3), np.float32)))
    ),
    "joined with another": lambda b, x: b.Concat(
        turned(b, x), b.reshape(b.Neg(x), (2, 4, 3)), axis=0
    ),
    "computed axes": lambda b, x: b.op(
        "Slice",
        turned(b, x),
        b.i64([0]),
        b.i64([1]),
        b.Abs(b.i64([1])),
        types=[(x.dtype, (2, 1, 3))],
    ),
    "no axes": lambda b, x: b.op(
        "Slice", turned(b, x), b.i64([0]), b.i64([1]), types=[(x.dtype, (1, 4, 3))]
    ),
    "units are added": lambda b, x: b.reshape(turned(b, x), (2, 1, 4, 3)),
    "a result": lambda b, x: (lambda t: [t, b.Neg(t)])(turned(b, x)),
}


@pytest.mark.parametrize("name", STAY)
def test_transposes_that_stay(name: str) -> None:
    rewrite = Rewrite(STAY[name], {"x": X}, SinkTranspose())
    rewrite.nothing()


GO: dict[str, tuple[Build, list[str]]] = {
    "beside columns": (
        lambda b, x: b.Add(turned(b, x), b.const(np.arange(4, dtype=np.float32).reshape(4, 1))),
        ["Add", "Transpose", "Reshape", "Reshape"],
    ),
    "beside what is computed of one axis": (
        lambda b, x: b.Add(turned(b, x), b.ReduceMax(x, b.i64([0, 2]), keepdims=0)),
        ["Add", "Transpose", "ReduceMax", "Reshape", "Reshape"],
    ),
    "beside a number": (
        lambda b, x: b.Add(turned(b, x), b.ReduceMax(x, keepdims=0)),
        ["Add", "Transpose", "ReduceMax"],
    ),
    "split": (
        lambda b, x: b.reshape(turned(b, x), (2, 2, 2, 3)),
        ["Reshape", "Transpose"],
    ),
}


@pytest.mark.parametrize("name", GO)
def test_transposes_that_move_on(name: str) -> None:
    build, left = GO[name]
    Rewrite(build, {"x": X}, SinkTranspose()).gives(*left)


NORMS: dict[str, tuple[Build, bool]] = {
    "a mean that is subtracted": (
        lambda b, t: b.Sub(t, b.ReduceMean(t, b.i64([2]), keepdims=1)),
        False,
    ),
    "a sum that is divided": (
        lambda b, t: b.Sub(t, b.Div(b.ReduceSum(t, b.i64([-1]), keepdims=1), b.scalar_like(3, t))),
        False,
    ),
    "squares": (
        lambda b, t: b.Mul(
            t, b.Add(b.ReduceMean(b.Mul(t, t), b.i64([2]), keepdims=1), b.scalar_like(1, t))
        ),
        False,
    ),
    "a sum": (lambda b, t: b.Sub(t, b.ReduceSum(t, b.i64([2]), keepdims=1)), True),
    "a maximum": (lambda b, t: b.Sub(t, b.ReduceMax(t, b.i64([2]), keepdims=1)), True),
    "a mean of another axis": (
        lambda b, t: b.Sub(t, b.ReduceMean(t, b.i64([1]), keepdims=1)),
        True,
    ),
    "a mean of two axes": (
        lambda b, t: b.Sub(t, b.ReduceMean(t, b.i64([1, 2]), keepdims=1)),
        True,
    ),
    "a mean of all axes": (lambda b, t: b.Sub(t, b.ReduceMean(t, keepdims=1)), True),
    "a mean and its sine": (
        lambda b, t: b.Sub(t, b.Sin(b.ReduceMean(t, b.i64([2]), keepdims=1))),
        True,
    ),
    "products with another": (
        lambda b, t: b.Mul(
            t, b.Add(b.ReduceMean(b.Mul(t, b.Abs(t)), b.i64([2]), keepdims=1), b.scalar_like(1, t))
        ),
        True,
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_what_begins_a_normalization(name: str) -> None:
    """A Transpose that brings the axis to the end stays in front of it."""
    body, fires = NORMS[name]

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return body(b, turned(b, x))  # type: ignore[return-value]

    def already_last(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return body(b, turned(b, x, (1, 0, 2)))  # type: ignore[return-value]

    assert bool(Rewrite(build, {"x": X}, SinkTranspose(), tolerance=1e-6).fired) == fires
    assert Rewrite(already_last, {"x": X}, SinkTranspose(), tolerance=1e-6).fired
