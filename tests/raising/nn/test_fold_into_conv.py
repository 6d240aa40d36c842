"""Scales and shifts are folded into convolutions if they are constant and have no other reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, fires, foreign

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.fold_into_conv import FoldBiasIntoConv, FoldScaleIntoConv

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 8, 8)).astype(np.float32)
W = RNG.normal(size=(4, 3, 3, 3)).astype(np.float32)
C = RNG.normal(size=(4, 1, 1)).astype(np.float32)
RULES = FoldBiasIntoConv(), FoldScaleIntoConv()
Build = Callable[..., "oir.Value | Sequence[oir.Value]"]


def conv(b: GraphBuilder, x: oir.Value, w: np.ndarray | oir.Value = W) -> oir.Value:
    weights = w if isinstance(w, oir.Value) else b.const(w)
    shape = {"kernel_shape": [3, 3], "pads": [0] * 4, "strides": [1, 1], "dilations": [1, 1]}
    return b.Conv(x, weights, group=1, **shape)


FIRE: dict[str, Build] = {
    "bias": lambda b, x: b.Neg(b.Add(b.const(C), conv(b, x))),
    "minus": lambda b, x: b.Neg(b.Sub(conv(b, x), b.const(C))),
    "scale": lambda b, x: b.Neg(b.Mul(conv(b, x), b.const(C))),
    "quotient": lambda b, x: b.Neg(b.Div(conv(b, x), b.const(C))),
    "number": lambda b, x: b.Neg(b.Mul(conv(b, x), b.scalar_like(3, x))),
    "both": lambda b, x: b.Neg(b.Add(b.Mul(b.Sub(conv(b, x), b.const(C)), b.const(C * 2)),
                                     b.const(C + 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRE)
def test_constants_go_into_the_weights(name: str) -> None:
    Rewrite(FIRE[name], {"x": X}, *RULES, tolerance=2e-6).gives("Conv", "Neg")


def test_a_computed_vector_is_a_bias() -> None:
    def build(b: GraphBuilder, x: oir.Value, v: oir.Value) -> oir.Value:
        return b.Neg(b.Add(conv(b, x), b.reshape(v, (1, 4, 1, 1))))

    inputs = {"x": X, "v": C.reshape(4)}
    Rewrite(build, inputs, *RULES, tolerance=2e-6).gives("Conv", "Neg")


def twice(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    y = conv(b, x)
    return [b.Add(y, b.const(C)), b.Neg(y)]


BOX = np.ones((4, 3, 3, 3), np.float32)
MIXED = np.where(np.arange(4).reshape(4, 1, 1, 1) == 1, 0, W).astype(np.float32)
HALVES = (2.0 ** np.arange(-2, 2)).astype(np.float32).reshape(4, 1, 1)
EXACT: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "a power of two": (BOX, HALVES),
    "a channel of zeros": (MIXED, C),
    "the least normal numbers": (BOX * np.float32(2.0**-100), np.full_like(C, 2.0**-26)),
}


@pytest.mark.parametrize("name", EXACT)
def test_scales_that_lose_no_digits(name: str) -> None:
    weights, scale = EXACT[name]
    for op_type in ("Mul", "Div"):

        def build(b: GraphBuilder, x: oir.Value, op_type: str = op_type) -> oir.Value:
            return b.Neg(b.op(op_type, conv(b, x, weights), b.const(scale)))

        Rewrite(build, {"x": X}, *RULES, tolerance=2e-6).gives("Conv", "Neg")


def test_a_mean_goes_into_a_convolution_that_may_be_exact_and_a_scale_does_not() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Mul(b.Sub(conv(b, x, BOX), b.const(C + 255)), b.const(C)))

    Rewrite(build, {"x": X}, *RULES, tolerance=2e-6).gives("Conv", "Mul", "Neg")


def biased(b: GraphBuilder, x: oir.Value, bias: oir.Value | None = None) -> oir.Value:
    bias = b.const(C.reshape(4) - 3) if bias is None else bias
    return b.Conv(x, b.const(W), bias, strides=(2, 1), dilations=(1, 2))


BIASED: dict[str, Build] = {
    "bias": lambda b, x: b.Neg(b.Add(b.const(C[None]), biased(b, x))),
    "minus": lambda b, x: b.Neg(b.Sub(biased(b, x), b.const(C))),
    "scale": lambda b, x: b.Neg(b.Mul(biased(b, x), b.const(C))),
    "quotient": lambda b, x: b.Neg(b.Div(biased(b, x), b.const(C))),
    "number": lambda b, x: b.Neg(b.Add(biased(b, x), b.const(C[:1]))),
}


@pytest.mark.parametrize("name", BIASED)
def test_constants_go_into_a_convolution_that_has_a_bias(name: str) -> None:
    found = Rewrite(BIASED[name], {"x": X}, *RULES, tolerance=2e-6)
    found.gives("Conv", "Neg")
    node = next(iter(found.model.graph))
    assert len(node.inputs) == 3 and tuple(node.attributes["strides"].as_ints()) == (2, 1)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("op_type", ["Add", "Mul"])
def test_other_types(op_type: str, dtype: type) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = conv(b, x, W.astype(dtype) * dtype(np.pi))
        return b.Neg(b.op(op_type, y, b.const(C.astype(dtype))))

    assert fires(build, {"x": X.astype(dtype)}, *RULES) == (dtype is np.float64)


def line(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """A convolution along one axis."""
    return b.Conv(x, b.const(W[..., 0]))


@pytest.mark.parametrize("op_type", ["Add", "Mul", "Div"])
@pytest.mark.parametrize("dims", [(4, 1), (1, 4, 1)])
def test_one_axis(op_type: str, dims: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.op(op_type, line(b, x), b.const(C.reshape(dims))))

    Rewrite(build, {"x": X[..., 0]}, *RULES, tolerance=2e-6).gives("Conv", "Neg")


@pytest.mark.parametrize("dims", [(1, 4), (4,), (1, 1, 4, 1)])
@pytest.mark.parametrize("op_type", ["Add", "Mul"])
def test_numbers_along_other_axes(op_type: str, dims: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.op(op_type, line(b, x), b.const(C.reshape(dims))))

    assert not fires(build, {"x": X[..., 0, :6]}, *RULES)


VECTORS: dict[str, tuple[tuple[int, ...], Build]] = {
    "a product": ((4,), lambda b, x, v: b.Mul(conv(b, x), b.reshape(v, (1, 4, 1, 1)))),
    "subtracted": ((4,), lambda b, x, v: b.Sub(conv(b, x), b.reshape(v, (1, 4, 1, 1)))),
    "another bias": ((4,), lambda b, x, v: b.Add(biased(b, x), b.reshape(v, (1, 4, 1, 1)))),
    "a number": ((1,), lambda b, x, v: b.Add(conv(b, x), b.reshape(v, (1, 1, 1, 1)))),
    "a matrix": ((2, 2), lambda b, x, v: b.Add(conv(b, x), b.reshape(v, (1, 4, 1, 1)))),
    "along the rows": ((6,), lambda b, x, v: b.Add(conv(b, x), b.reshape(v, (1, 1, 6, 1)))),
    "no vector before": ((4, 1, 1), lambda b, x, v: b.Add(conv(b, x), v)),
    "moved": ((1, 1, 1, 4), lambda b, x, v: b.Add(conv(b, x), b.transpose(v, (0, 3, 1, 2)))),
    "a computed bias": ((4,), lambda b, x, v: b.Add(biased(b, x, v), b.const(C))),
    "a computed bias scaled": ((4,), lambda b, x, v: b.Mul(biased(b, x, v), b.const(C))),
}


@pytest.mark.parametrize("name", VECTORS)
def test_other_computed_numbers_stay(name: str) -> None:
    dims, build = VECTORS[name]
    assert not fires(build, {"x": X, "v": np.ones(dims, np.float32)}, *RULES)


TINY = np.float32(1e-20)
FIELD = RNG.normal(size=(1, 4, 6, 6)).astype(np.float32)
STAY: dict[str, Build] = {
    "others read it": twice,
    "minuend": lambda b, x: b.Neg(b.Sub(b.const(C), conv(b, x))),
    "dividend": lambda b, x: b.Neg(b.Div(b.const(C), conv(b, x))),
    "places": lambda b, x: b.Neg(b.Add(conv(b, x), b.const(FIELD))),
    "images": lambda b, x: b.Neg(b.Mul(conv(b, x), b.const(np.ones((2, 1, 1, 1), np.float32)))),
    "shared weights": lambda b, x: [b.Mul(conv(b, x), b.const(C)), conv(b, b.Neg(x))],
    "an infinite scale": lambda b, x: b.Neg(b.Mul(conv(b, x), b.const(C * np.float32(np.inf)))),
    "a divisor of 0": lambda b, x: b.Neg(b.Div(conv(b, x), b.const(C * 0))),
    "an overflow": lambda b, x: b.Neg(b.Mul(conv(b, x, W / TINY), b.const(C / TINY))),
    "an underflow": lambda b, x: b.Neg(b.Mul(conv(b, x, W * TINY), b.const(C * TINY))),
    "a box": lambda b, x: b.Neg(b.Mul(conv(b, x, BOX), b.const(C))),
    "a box divided": lambda b, x: b.Neg(b.Div(conv(b, x, BOX), b.scalar_like(9, x))),
    "8-bit weights": lambda b, x: b.Neg(b.Mul(conv(b, x, np.round(W * 32)), b.const(C))),
    "results out of range": lambda b, x: b.Neg(
        b.Mul(conv(b, x, W / np.abs(W).max() * np.float32(1e20)), b.scalar_like(3e18, x))
    ),
    "infinite weights": lambda b, x: b.Neg(b.Mul(conv(b, x, W * np.inf), b.const(C))),
    "an infinite divisor": lambda b, x: b.Neg(b.Div(conv(b, x), b.const(C * np.float32(np.inf)))),
    "an infinite shift": lambda b, x: b.Neg(b.Add(conv(b, x), b.const(C * np.float32(np.inf)))),
    "one of no numbers": lambda b, x: b.Neg(b.Mul(conv(b, x), b.const(C * np.float32(np.nan)))),
    "a result too": lambda b, x: [y := conv(b, x), b.Add(y, b.const(C))],
    "weights shared": lambda b, x: [b.Mul(conv(b, x, w := b.const(W)), b.const(C)), b.Neg(w)],
    "nothing convolved": lambda b, x: b.Mul(b.Add(x, x), x),
    "one channel": lambda b, x: b.Neg(b.Mul(conv(b, x, W[:1]), b.const(C))),
    "more axes": lambda b, x: b.Neg(b.Mul(conv(b, x), b.const(np.full((1,) * 5, 2, np.float32)))),
    "one channel shifted": lambda b, x: b.Neg(b.Add(conv(b, x, W[:1]), b.const(C))),
}


@pytest.mark.parametrize("name", STAY)
def test_anything_else_stays(name: str) -> None:
    Rewrite(STAY[name], {"x": X}, *RULES).nothing()


def test_computed_weights_are_not_scaled() -> None:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return b.Neg(b.Mul(conv(b, x, w), b.const(C)))

    Rewrite(build, {"x": X, "w": W}, *RULES).nothing()


@pytest.mark.parametrize("op_type", ["Add", "Mul"])
def test_operators_of_others_stay(op_type: str) -> None:
    assert not fires(lambda b, x: b.op(op_type, foreign(conv(b, x)), b.const(C)), {"x": X}, *RULES)
