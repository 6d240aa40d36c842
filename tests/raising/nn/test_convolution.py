"""Convolutions with a kernel of few places as products of matrices, and those that stay."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign, padded_by

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.convolution import ConvFilterGradient, FoldPadIntoConv
from hlo2onnx.raising.rules.shapes.reshape import ComposeTransposes


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def _conv(**attributes: object) -> Build:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return b.Conv(x, w, **attributes)

    return build


@pytest.mark.parametrize(
    ("image", "kernel", "attributes"),
    [
        ((8, 8, 16, 16), (16, 8, 14, 14), {}),
        ((8, 8, 16, 16), (16, 8, 16, 16), {"pads": (1, 1, 1, 1)}),
        ((8, 8, 16, 16), (16, 8, 16, 15), {"pads": (0, 1, 1, 0)}),
        ((8, 8, 16, 16), (16, 8, 14, 12), {"strides": (1, 2)}),
        ((8, 8, 29, 28), (16, 8, 14, 14), {"dilations": (2, 2), "pads": (0, 0, 0, 1)}),
        ((8, 8, 16, 16), (16, 8, 16, 16), {}),
        ((8, 8, 128), (32, 8, 126), {}),
        ((4, 4, 9, 9, 9), (32, 4, 8, 7, 9), {}),
    ],
)
def test_kernel_gradient(
    image: tuple[int, ...], kernel: tuple[int, ...], attributes: dict[str, object]
) -> None:
    inputs = {"x": _normal(*image), "w": _normal(*kernel)}
    found = Rewrite(_conv(**attributes), inputs, ConvFilterGradient(), tolerance=1e-5)
    assert found.fired["conv-filter-gradient"] == 1
    assert not found.nodes["Conv"]


@pytest.mark.parametrize(
    ("image", "kernel", "attributes"),
    [
        ((8, 8, 17, 17), (16, 8, 14, 14), {}),  # four places
        ((1, 8, 16, 16), (128, 8, 14, 14), {}),  # one image
        ((8, 8, 6, 6), (8, 8, 4, 4), {}),  # little work
        ((8, 16, 16, 16), (16, 8, 14, 14), {"group": 2}),
        ((0, 8, 16, 16), (16, 8, 14, 14), {}),
    ],
)
def test_other_convolutions_stay(
    image: tuple[int, ...], kernel: tuple[int, ...], attributes: dict[str, object]
) -> None:
    inputs = {"x": _normal(*image), "w": _normal(*kernel)}
    Rewrite(_conv(**attributes), inputs, ConvFilterGradient()).nothing()


@pytest.mark.parametrize(
    ("image", "kernel", "is_large"),
    [
        ((2, 16, 130), (32, 16, 128), True),
        ((2, 16, 129), (32, 16, 127), False),  # a little less to multiply
        ((2, 16, 131), (32, 16, 128), False),  # four places
    ],
)
def test_from_which_size_on(
    image: tuple[int, ...], kernel: tuple[int, ...], is_large: bool
) -> None:
    inputs = {"x": _normal(*image), "w": _normal(*kernel)}
    assert fires(_conv(), inputs, ConvFilterGradient()) == is_large


def test_convolutions_that_pad_by_themselves_stay() -> None:
    inputs = {"x": _normal(8, 8, 16, 16), "w": _normal(16, 8, 14, 14)}
    assert fires(_conv(), inputs, ConvFilterGradient())
    for name in ("VALID", "SAME_UPPER"):

        def build(b: GraphBuilder, x: oir.Value, w: oir.Value, kind: str = name) -> oir.Value:
            return padded_by(b.Conv(x, w), kind)

        assert not fires(build, inputs, ConvFilterGradient())


def test_operators_of_others_stay() -> None:
    inputs = {"x": _normal(8, 8, 16, 16), "w": _normal(16, 8, 14, 14)}
    assert not fires(lambda b, x, w: foreign(b.Conv(x, w)), inputs, ConvFilterGradient())
    doubles = {name: array.astype(np.float64) for name, array in inputs.items()}
    assert not fires(_conv(), doubles, ConvFilterGradient())


def test_constant_weights_and_biases_stay() -> None:
    weights = _normal(16, 8, 14, 14)

    def constant(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Conv(x, b.const(weights))

    def biased(b: GraphBuilder, x: oir.Value, w: oir.Value, bias: oir.Value) -> oir.Value:
        return b.Conv(x, w, bias)

    image = _normal(8, 8, 16, 16)
    Rewrite(constant, {"x": image}, ConvFilterGradient()).nothing()
    inputs = {"x": image, "w": weights, "bias": _normal(16)}
    Rewrite(biased, inputs, ConvFilterGradient()).nothing()


def test_half_precision_stays() -> None:
    inputs = {"x": _normal(8, 8, 16, 16), "w": _normal(16, 8, 14, 14)}
    halves = {name: array.astype(np.float16) for name, array in inputs.items()}
    Rewrite(_conv(), halves, ConvFilterGradient(), ComposeTransposes()).nothing()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_gradient_in_jax(stride: int, padding: str) -> None:
    form = ("NHWC", "HWIO", "NHWC")

    def loss(kernel: jax.Array, x: jax.Array) -> jax.Array:
        strides = (stride, stride)
        return jnp.sin(
            jax.lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=form)
        ).sum()

    args = _normal(3, 3, 16, 32) / 8, _normal(16, 14, 14, 16)
    program = hlo2onnx.translate(jax.jit(jax.grad(loss)).lower(*args))
    assert program.report.rules["conv-filter-gradient"] == 1
    assert program.report.nodes["Conv"] == 1
    verification = program.verify(*args)
    assert verification.ok, verification


def _padded(
    edges: list[int], mode: str = "constant", value: float = 0, **attributes: object
) -> Build:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        zero = [b.scalar_like(value, x)] if mode == "constant" else []
        return b.Conv(b.Pad(x, b.i64(edges), *zero, mode=mode), w, **attributes)

    return build


@pytest.mark.parametrize(
    ("image", "kernel", "pads", "attributes"),
    [
        ((1, 2, 8, 8), (4, 2, 3, 3), [0, 0, 0, 0, 0, 0, 1, 1], {"strides": (2, 2)}),
        ((2, 2, 8, 7), (4, 1, 3, 3), [0, 0, 1, 0, 0, 0, 0, 2], {"group": 2}),
        ((1, 2, 8, 8), (4, 2, 5, 5), [0, 0, 1, 2, 0, 0, 3, 2], {"pads": (1, 2, 1, 0)}),
        ((1, 2, 16), (4, 2, 2), [0, 0, 4, 0, 0, 0], {"dilations": (4,)}),
        ((1, 2, 4, 4, 4), (4, 2, 2, 2, 2), [0, 0, 1, 0, 1, 0, 0, 0, 1, 0], {}),
        ((1, 2, 8, 8), (4, 2, 3, 3), [0, 0, 2, 0, 0, 0, 0, 2], {"pads": (0, 0, 0, 0)}),
    ],
)
def test_zeros_around_an_image(
    image: tuple[int, ...], kernel: tuple[int, ...], pads: list[int], attributes: dict[str, object]
) -> None:
    inputs = {"x": _normal(*image), "w": _normal(*kernel)}
    Rewrite(_padded(pads, **attributes), inputs, FoldPadIntoConv(), tolerance=1e-5).gives("Conv")


@pytest.mark.parametrize(
    ("pads", "mode", "value"),
    [
        ([0, 0, 1, 1, 0, 0, 1, 1], "reflect", 0),
        ([0, 0, 1, 1, 0, 0, 1, 1], "constant", 1),
        ([0, 0, -1, 1, 0, 0, 1, 1], "constant", 0),
        ([0, 1, 1, 1, 0, 1, 1, 1], "constant", 0),
        ([1, 0, 1, 1, 0, 0, 1, 1], "constant", 0),
        ([0, 0, 3, 1, 0, 0, 1, 1], "constant", 0),
        ([0, 0, 1, 1, 0, 0, 1, 3], "constant", 0),
        ([0, 0, 1, 1, 0, 0, 1, -1], "constant", 0),
        ([0, 0, 1, 1, 1, 0, 1, 1], "constant", 0),
        ([0, 0, 1, 1, 0, 1, 1, 1], "constant", 0),
    ],
)
def test_other_edges_of_an_image(pads: list[int], mode: str, value: float) -> None:
    channels = 2 + pads[1] + pads[5]
    inputs = {"x": _normal(1, 2, 8, 8), "w": _normal(4, channels, 3, 3)}
    Rewrite(_padded(pads, mode, value), inputs, FoldPadIntoConv()).nothing()


def test_an_edge_that_others_read_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> list[oir.Value]:
        padded = b.Pad(x, b.i64([0, 0, 1, 1, 0, 0, 1, 1]), b.scalar_like(0, x))
        return [b.Conv(padded, w), b.Exp(padded)]

    inputs = {"x": _normal(1, 2, 8, 8), "w": _normal(4, 2, 3, 3)}
    Rewrite(build, inputs, FoldPadIntoConv()).nothing()


EDGES = [0, 0, 1, 1, 0, 0, 1, 1]


def _around(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.Pad(x, b.i64(EDGES))


def _twice(b: GraphBuilder, x: oir.Value, w: oir.Value) -> list[oir.Value]:
    padded = _around(b, x)
    return [b.Conv(padded, w), b.Conv(padded, b.Neg(w))]


def _result_too(b: GraphBuilder, x: oir.Value, w: oir.Value) -> list[oir.Value]:
    padded = _around(b, x)
    return [b.Conv(padded, w), padded]


def _biased(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
    bias = b.const(np.arange(4, dtype=np.float32))
    return b.Conv(_around(b, x), w, bias, strides=(2, 2))


def test_edges_without_a_value() -> None:
    inputs = {"x": _normal(1, 2, 8, 8), "w": _normal(4, 2, 3, 3)}
    Rewrite(_twice, inputs, FoldPadIntoConv(), tolerance=1e-5).gives("Conv", "Conv", "Neg")
    Rewrite(_biased, inputs, FoldPadIntoConv(), tolerance=1e-5).gives("Conv")


def _computed(b: GraphBuilder, x: oir.Value, w: oir.Value, edges: oir.Value) -> oir.Value:
    padded = b.op("Pad", x, edges, types=[(oir.DataType.FLOAT, (1, 2, 10, 10))])
    return b.Conv(padded, w)


def _along(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
    """Edges of two axes that are named."""
    axes = b.i64([2, 3])
    padded = b.op("Pad", x, b.i64([1, 1, 1, 1]), b.scalar_like(0, x), axes)
    return b.Conv(padded, w)


UNPADDED: dict[str, Build] = {
    "an operand": _conv(),
    "a function": lambda b, x, w: b.Conv(b.Exp(x), w),
    "an operator of others": lambda b, x, w: b.Conv(foreign(_around(b, x)), w),
    "a result too": _result_too,
    "padded by itself too": lambda b, x, w: padded_by(b.Conv(_around(b, x), w), "VALID"),
    "axes that are named": _along,
}


@pytest.mark.parametrize("name", UNPADDED)
def test_other_operands_of_a_convolution(name: str) -> None:
    inputs = {"x": _normal(1, 2, 8, 8), "w": _normal(4, 2, 3, 3)}
    assert not fires(UNPADDED[name], inputs, FoldPadIntoConv())


def test_edges_that_are_computed_stay() -> None:
    inputs = {"x": _normal(1, 2, 8, 8), "w": _normal(4, 2, 3, 3), "edges": np.array(EDGES)}
    assert not fires(_computed, inputs, FoldPadIntoConv())
