"""Sums of squares and magnitudes, and norms: where they are one reduction."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign, model_of
from rule_names import rule

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rewriter, apply_rules
from hlo2onnx.targets import load_target

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
EDGES = np.array([[np.nan, 1], [np.inf, 1], [-np.inf, 0], [-0.0, -0.0], [3e38, 3e38]], np.float32)


def squares(b: GraphBuilder, x: oir.Value, axes: tuple[int, ...], keepdims: int = 0) -> oir.Value:
    return b.ReduceSum(b.Mul(x, x), b.i64(axes), keepdims=keepdims)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [(2,), (0,), (1, 2), (0, 1, 2)])
def test_all_of_them(axes: tuple[int, ...], keepdims: int, dtype: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        magnitudes = b.ReduceSum(b.Abs(x), b.i64(axes), keepdims=keepdims)
        norm = b.Sqrt(squares(b, x, axes, keepdims))
        return [b.Neg(squares(b, x, axes, keepdims)), b.Neg(magnitudes), b.Neg(norm)]

    rewrite = Rewrite(
        build, {"x": X.astype(dtype)}, rule("reduce-sum-square"), rule("reduce-l2"), tolerance=3e-7
    )
    rewrite.gives(*["Neg"] * 3, "ReduceL1", "ReduceL2", "ReduceSumSquare")


def test_at_the_edges() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Sqrt(squares(b, x, (1,))))

    Rewrite(
        build, {"x": EDGES}, rule("reduce-sum-square"), rule("reduce-l2"), tolerance=3e-7
    ).gives("Neg", "ReduceL2")


def test_sums_over_no_axes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.ReduceSum(b.Mul(x, x), b.i64([]), noop_with_empty_axes=1)

    Rewrite(build, {"x": X}, rule("reduce-sum-square")).nothing()


def test_a_product_of_two_is_no_square() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.ReduceSum(b.Mul(x, b.Neg(x)), b.i64([2]), keepdims=0)

    Rewrite(build, {"x": X}, rule("reduce-sum-square")).nothing()


@pytest.mark.parametrize(
    ("shape", "axis", "fires"),
    [
        ((2, 1023), 1, 1),
        ((2, 1025), 1, 0),
        ((127, 2), 0, 1),
        ((128, 2), 0, 0),
        ((2, 0), 1, 0),
        ((64, 32), 1, 1),
        ((64, 33), 1, 0),
        ((1, 1), 1, 1),
    ],
)
def test_how_many_terms(shape: tuple[int, ...], axis: int, fires: int) -> None:
    model = model_of(lambda b, x: b.Neg(squares(b, x, (axis,))), {"x": np.ones(shape, "f4")})
    assert (
        apply_rules(model, [rule("reduce-sum-square")], load_target("ort-cpu"))["reduce-sum-square"]
        == fires
    )


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.int32])
def test_other_types_stay(dtype: jnp.dtype) -> None:
    function = jax.jit(lambda x: jnp.sum(x * x, -1))
    x = jnp.asarray(X * 3, dtype)
    program = hlo2onnx.translate(function.lower(x))
    assert "ReduceSumSquare" not in program.report.nodes
    assert program.verify(x).ok


def test_norms_in_jax() -> None:
    program = hlo2onnx.translate(jax.jit(lambda x: jnp.linalg.norm(x, axis=-1)).lower(X))
    assert [node.op_type for node in program.model_proto.graph.node] == ["ReduceL2"]
    assert program.verify(X).ok


OTHERS: dict[str, Build] = {
    "a sum": lambda b, x: b.ReduceSum(x),
    "a sum of exponentials": lambda b, x: b.ReduceSum(b.Exp(x)),
    "a sum of sums": lambda b, x: b.ReduceSum(b.Add(x, x)),
    "a root": lambda b, x: b.Sqrt(x),
    "a root of an exponential": lambda b, x: b.Sqrt(b.Exp(x)),
    "a root of a sum": lambda b, x: b.Sqrt(b.ReduceSum(x)),
    "squares of others": lambda b, x: b.ReduceSum(foreign(b.Mul(x, x))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_sums_and_roots(name: str) -> None:
    assert not fires(OTHERS[name], {"x": X}, rule("reduce-sum-square"), rule("reduce-l2"))


def test_a_number_has_no_axis() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.ReduceSum(b.Mul(x, x)))

    Rewrite(build, {"x": X[0, 0, 0]}, rule("reduce-sum-square")).nothing()


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.int64])
@pytest.mark.parametrize("name", ["squares", "magnitudes", "root"])
def test_types_without_a_kernel_of_all_digits_stay(name: str, dtype: type) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        if name == "root":
            return b.cast(b.Sqrt(b.cast(b.ReduceSumSquare(x), oir.DataType.FLOAT)), x.dtype)
        return b.Neg(squares(b, x, (1,)) if name == "squares" else b.ReduceSum(b.Abs(x)))

    assert not fires(
        build, {"x": np.ones((2, 3), dtype)}, rule("reduce-sum-square"), rule("reduce-l2")
    )


def test_what_the_target_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(Rewriter, "supports", lambda _, *key: asked.append(key))
    builds: list[Build] = [
        lambda b, x: b.Neg(squares(b, x, (1,))),
        lambda b, x: b.Neg(b.ReduceSum(b.Abs(x))),
        lambda b, x: b.Neg(b.Sqrt(b.ReduceSumSquare(x))),
    ]
    for build in builds:
        assert not fires(build, {"x": X}, rule("reduce-sum-square"), rule("reduce-l2"))
    op_types = ["ReduceSumSquare", "ReduceL1", "ReduceL2"]
    assert asked == [(op_type, oir.DataType.FLOAT) for op_type in op_types]
