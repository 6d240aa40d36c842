"""Workarounds for a runtime's faults, node by node."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, model_of
from workaround_cases import RNG, changed

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.facts import Facts
from hlo2onnx.report import Report
from hlo2onnx.runtime.sessions import OrtProgram
from hlo2onnx.targets import load_target
from hlo2onnx.targets.costs import Flags
from hlo2onnx.targets.legalize import legalize
from hlo2onnx.targets.legalize.kernels import is_right_here
from hlo2onnx.targets.workarounds.graph_fusions import spell_out_axes
from hlo2onnx.targets.workarounds.numerics import split_long_sum


@pytest.mark.parametrize(
    ("shape", "axes", "is_long"),
    [
        ((2, 2047), [1], False),
        ((2, 2048), [1], True),
        ((127, 2), [0], False),
        ((128, 2), [0], True),
        ((2, 32, 64), [1, 2], True),
        ((2, 32, 63), [-1, 1], False),
        ((8, 2, 16), [0, 2], True),
        ((8, 2, 15), [0, 2], False),
        ((131, 3), [0], True),
        ((2049,), [], True),
        ((2047,), [], False),
        ((3, 5, 400), [1], False),
    ],
)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean"])
def test_long_sums(
    op_type: str, keepdims: int, shape: tuple[int, ...], axes: list[int], is_long: bool
) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        given = [b.i64(axes)] if axes else []
        return b.op(op_type, x, *given, keepdims=keepdims)  # type: ignore[no-any-return]

    x = RNG.uniform(1, 2, shape).astype(np.float32)
    nodes = changed(build, op_type, split_long_sum, x=x)
    assert (nodes is not None) == is_long
    if nodes is not None:
        assert nodes["Div"] == (op_type == "ReduceMean")
        assert nodes["Pad"] == (131 in shape or 2049 in shape)
        rounds = 2 if max(shape) >= 128 else 1
        assert nodes["ReduceSum"] == rounds + len(axes[1:])


def test_sums_that_are_not_split() -> None:
    def no_axes(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.ReduceSum(x, b.i64([]), noop_with_empty_axes=1)

    x = np.ones((2, 4096), np.float32)
    assert changed(no_axes, "ReduceSum", split_long_sum, x=x) is None

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.ReduceSum(x, b.i64([1]))

    assert changed(build, "ReduceSum", split_long_sum, x=x.astype(np.int32)) is None
    nodes = changed(build, "ReduceSum", split_long_sum, x=x.astype(np.float64))
    assert nodes == {"Reshape": 1, "ReduceSum": 2}


INTEGERS = np.array([[-3, -1, 0], [1, 2, 3]])


Number = Callable[[float], oir.Value]
"""Makes a constant with one axis of 1 more than x has."""


def silu(b: GraphBuilder, x: oir.Value, c: Number) -> oir.Value:
    return b.Mul(b.Div(c(1), b.Add(c(1), b.Exp(b.Neg(x)))), x)


def quick_gelu(b: GraphBuilder, x: oir.Value, c: Number) -> oir.Value:
    return b.Mul(x, b.Sigmoid(b.Mul(x, c(1.702))))


def gelu(b: GraphBuilder, x: oir.Value, c: Number) -> oir.Value:
    return b.Mul(b.Mul(x, b.Add(b.Erf(b.Div(x, c(np.sqrt(2)))), c(1))), c(0.5))


def fast_gelu(b: GraphBuilder, x: oir.Value, c: Number) -> oir.Value:
    sum_ = b.Add(x, b.Mul(c(0.044715), b.Pow(x, c(3))))
    return b.Mul(b.Mul(x, c(0.5)), b.Add(c(1), b.Tanh(b.Mul(c(np.sqrt(2 / np.pi)), sum_))))


@pytest.mark.parametrize("formula", [silu, quick_gelu, gelu, fast_gelu])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_axes_of_constants(formula: Callable[..., oir.Value], shape: tuple[int, ...]) -> None:
    """What a runtime fuses keeps the axes of 1 that a constant adds."""
    x, axes = np.full(shape, 1.5, np.float32), (1,) * (len(shape) + 1)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return formula(b, x, lambda number: b.const(np.full(axes, number, np.float32)))

    model = model_of(build, {"x": x})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    content = oir.to_proto(model).SerializeToString()
    fused, apart = (OrtProgram(content, optimize=on)({"x": x})[0] for on in (True, False))
    assert fused.shape == apart.shape == axes
    np.testing.assert_allclose(fused, apart, rtol=1e-6)


def pooled(edges: list[int], read: str = "MaxPool", mode: str = "constant") -> Build:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        zero = [b.scalar_like(0, x)] if mode == "constant" else []
        y = b.Pad(x, b.i64(edges), *zero, mode=mode)
        if read != "MaxPool":
            return b.op(read, y)  # type: ignore[no-any-return]
        window = {"kernel_shape": [2, 2], "strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}
        return b.MaxPool(y, **window)

    return build


@pytest.mark.parametrize(
    "build",
    [
        pooled([0, 0, 1, 1, 0, 0, 1, 1], "Exp"),
        pooled([0, 0, 1, 1, 0, 0, 1, 1], mode="edge"),
        pooled([0] * 8),
    ],
)
def test_other_edges(build: Build) -> None:
    x = RNG.uniform(1, 2, (1, 2, 4, 4)).astype(np.float32)
    assert changed(build, "Pad", spell_out_axes, x=x) is None


def right(build: Build, x: np.ndarray, op_type: str) -> bool:
    model = model_of(build, {"x": x})
    (node,) = (n for n in model.graph if n.op_type == op_type)
    return is_right_here(node, Facts(), True, Flags(sums_in_f64=True))


@pytest.mark.parametrize(
    ("low", "high", "is_right"),
    [
        (-(2**31), 2**31 - 1, True),
        (-(2**31) - 1, 0, False),
        (0, 2**31, False),
        (None, None, False),
    ],
)
@pytest.mark.parametrize("op_type", ["ReduceMax", "Sign", "Max"])
def test_which_integers_are_ordered(
    op_type: str, low: int | None, high: int | None, is_right: bool
) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        if low is not None and high is not None:
            x = b.Clip(x, b.scalar_like(low, x), b.scalar_like(high, x))
        inputs = [b.scalar_like(7, x)] if op_type == "Max" else []
        return b.op(op_type, x, *inputs)  # type: ignore[no-any-return]

    assert right(build, INTEGERS, op_type) == is_right


@pytest.mark.parametrize(
    ("most", "op_type", "is_right"),
    [
        (2**53 // 6, "ReduceSum", True),
        (2**53 // 6 + 1, "ReduceSum", False),
        (2**53 // 6, "ReduceL1", True),
        (2**25, "ReduceSumSquare", True),
        (2**26, "ReduceSumSquare", False),
        (1, "ReduceProd", False),
        (None, "ReduceSum", False),
    ],
)
def test_which_integers_are_summed(most: int | None, op_type: str, is_right: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        if most is not None:
            x = b.Clip(x, b.scalar_like(-most, x), b.scalar_like(most - 1, x))
        return b.op(op_type, x)  # type: ignore[no-any-return]

    assert right(build, INTEGERS, op_type) == is_right
