"""Graphs that no handler makes, but a rule may: operands left out, axes left out, nothing in them.

Whatever the rules make of them gives the same numbers.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, model_of, run_model

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising import raise_model
from hlo2onnx.report import Report
from hlo2onnx.targets import load_target

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def gelu_of_more_axes(b: GraphBuilder, x: oir.Value) -> oir.Value:
    erf = b.Erf(b.Mul(x, b.scalar_like(np.sqrt(0.5), x)))
    half = b.Mul(b.const(np.full((1, 1, 1), 0.5, np.float32)), x)
    return b.Mul(half, b.Add(b.scalar_like(1, x), erf))


def normalized(b: GraphBuilder, x: oir.Value, dims: tuple[int, ...]) -> oir.Value:
    """A root of as many axes as `dims` beside x."""
    difference = b.Sub(x, b.ReduceMean(x, b.i64([1]), keepdims=1))
    variance = b.ReduceMean(b.Mul(difference, difference), b.i64([1]), keepdims=1)
    root = b.Sqrt(b.Add(variance, b.const(np.full(dims, 1e-3, np.float32))))
    return b.Div(difference, root)


ONES = np.ones((1, 1, 1, 3), np.float32)
ODD: dict[str, tuple[Build, np.ndarray]] = {
    "Clip has no lower bound, of a Reshape": (
        lambda b, x: b.Neg(b.op("Clip", b.reshape(x, (3, 2)), None, b.scalar_like(2, x))),
        X,
    ),
    "Clip has no lower bound, of a Transpose": (
        lambda b, x: b.Neg(b.op("Clip", b.transpose(x, (1, 0)), None, b.scalar_like(2, x))),
        X,
    ),
    "a vector that was made a matrix of several rows": (
        lambda b, x: b.reshape(
            b.MatMul(b.reshape(x, (2, 3)), b.const(np.zeros((3, 0), np.float32))), (0,)
        ),
        X.reshape(-1),
    ),
    "nothing in another shape": (
        lambda b, x: b.Exp(b.Add(b.reshape(x, (0, 5)), b.const(np.ones(5, np.float32)))),
        np.zeros((0, 3), np.float32),
    ),
    "no axis is reduced, of a Transpose": (
        lambda b, x: b.Neg(
            b.op("ReduceMax", b.transpose(x, (1, 0)), b.i64([]), noop_with_empty_axes=1, keepdims=0)
        ),
        X,
    ),
    "no axis is reduced, divided": (
        lambda b, x: b.Div(
            b.op("ReduceSum", x, b.i64([]), noop_with_empty_axes=1, keepdims=1), b.scalar_like(1, x)
        ),
        X,
    ),
    "all axes are reduced, of a Transpose": (
        lambda b, x: b.Neg(b.op("ReduceSum", b.transpose(x, (1, 0)), keepdims=0)),
        X,
    ),
    "one operand": (lambda b, x: b.Neg(b.op("Max", b.reshape(x, (3, 2)))), X),
    "three operands": (
        lambda b, x: b.op(
            "Max", b.reshape(x, (3, 2)), b.reshape(b.Neg(x), (3, 2)), b.const(X[0, 1])
        ),
        X,
    ),
    "Gelu with a constant of more axes": (gelu_of_more_axes, X),
    "LayerNormalization with an epsilon of more axes": (
        lambda b, x: normalized(b, x, (1, 1, 1)),
        X,
    ),
    "LayerNormalization with a scale of more axes": (
        lambda b, x: b.Mul(normalized(b, x, ()), b.const(ONES)),
        X,
    ),
    "maximum with a zero of more axes": (
        lambda b, x: b.Add(b.Max(b.const(ONES[..., :1] * 0), x), b.scalar_like(1, x)),
        X,
    ),
    "a Slice that ends before the first element": (
        lambda b, x: b.concat(
            [
                b.op("Slice", b.const(X + 1), b.i64([0]), b.i64([-100]), b.i64([0])),
                b.op("Slice", b.const(X), b.i64([-9]), b.i64([-100]), b.i64([0]), b.i64([-1])),
                b.Neg(x),
            ],
            0,
        ),
        X,
    ),
}


@pytest.mark.parametrize("without", [(), ("fold-constants", "implicit-broadcast")])
@pytest.mark.parametrize("name", ODD)
def test_odd_graphs(name: str, without: tuple[str, ...]) -> None:
    build, array = ODD[name]
    model = model_of(build, {"x": array})
    before = run_model(model, {"x": array})
    raise_model(model, load_target("ort-cpu"), frozenset(without), Report())
    for new, old in zip(run_model(model, {"x": array}), before, strict=True):
        np.testing.assert_allclose(new, old, rtol=2e-6, atol=1e-6)
