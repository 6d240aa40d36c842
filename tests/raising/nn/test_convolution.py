"""Convolutions as products of matrices, and those that stay."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_jax
from edge_values import edge_values
from rewriting import Build, Rewrite, fires, foreign, padded_by

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.raising.rules.nn.convolution import ConvToMatMul


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


IMAGE, KERNEL = (1, 16, 4, 4), (3, 3, 16, 32)


def _turned(b: GraphBuilder, w: oir.Value) -> oir.Value:
    """A kernel with channels first."""
    rank = len(w.shape or ())
    return b.transpose(w, (rank - 1, rank - 2, *range(rank - 2)))


def _turned_conv(**attributes: object) -> Build:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return b.Conv(x, _turned(b, w), **attributes)

    return build


@pytest.mark.parametrize(
    ("image", "kernel", "attributes"),
    [
        (IMAGE, KERNEL, {}),
        (IMAGE, KERNEL, {"pads": (1, 1, 1, 1)}),
        (IMAGE, KERNEL, {"pads": (0, 2, 1, 0)}),
        ((2, 16, 5, 6), KERNEL, {"strides": (2, 3), "pads": (1, 0, 0, 1)}),
        ((2, 16, 5, 7), KERNEL, {"dilations": (1, 3)}),
        (
            (1, 8, 7, 7),
            (3, 2, 8, 32),
            {"dilations": (2, 3), "strides": (2, 1), "pads": (1, 2, 2, 1)},
        ),
        ((2, 64, 3, 2), (1, 1, 64, 32), {}),
        ((2, 64, 3, 2), (1, 1, 64, 32), {"strides": (2, 1)}),
        ((1, 64, 2, 2), (1, 1, 64, 32), {"pads": (1, 0, 0, 1)}),
        ((1, 64, 1, 1), (3, 3, 64, 32), {"pads": (1, 1, 1, 1)}),
        ((2, 16, 9), (5, 16, 32), {"pads": (2, 2), "strides": (2,)}),
        ((2, 64, 9), (1, 64, 64), {}),
        ((1, 8, 3, 4, 3), (2, 3, 2, 8, 16), {"pads": (0, 1, 0, 1, 1, 1)}),
    ],
)
def test_product(
    image: tuple[int, ...], kernel: tuple[int, ...], attributes: dict[str, object]
) -> None:
    inputs = {"x": _normal(*image), "w": _normal(*kernel)}
    found = Rewrite(_turned_conv(**attributes), inputs, ConvToMatMul(), tolerance=1e-5)
    assert found.fired["conv-to-matmul"] == 1
    assert found.nodes["MatMul"] == 1
    assert not found.nodes["Conv"]


def test_bias_of_each_channel() -> None:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value, bias: oir.Value) -> oir.Value:
        return b.Conv(x, _turned(b, w), bias)

    inputs = {"x": _normal(*IMAGE), "w": _normal(*KERNEL), "bias": _normal(32)}
    found = Rewrite(build, inputs, ConvToMatMul(), tolerance=1e-5)
    assert found.fired["conv-to-matmul"] == 1
    assert found.nodes["Add"] == 1


def _layer(x: jax.Array, w: jax.Array, strides: Sequence[int] = (1, 1)) -> jax.Array:
    dims = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, strides, "SAME", dimension_numbers=dims)


def test_infinite_kernels_meet_the_zeros_of_the_padding() -> None:
    """0 * inf is NaN, in XLA and in both forms."""
    edges = edge_values("f32")
    x, w = np.ones((1, 2, 2, 16), np.float32), np.resize(edges, KERNEL).astype(np.float32)
    run = against_jax(_layer, x, w)
    run.close()
    assert run.nodes["MatMul"] and not run.nodes["Conv"]
    assert np.isnan(run.actual[0][0]).any()


def test_layers_between_two_products_keep_channels_last() -> None:
    def network(x: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        return _layer(jax.numpy.tanh(_layer(x, v)), w)

    x, v, w = _normal(1, 4, 4, 16), _normal(3, 3, 16, 32), _normal(1, 1, 32, 64)
    run = against_jax(network, x, v, w).close()
    assert run.nodes["MatMul"] == 2
    run.has_no("Conv", "Transpose")


@pytest.mark.parametrize(
    ("image", "kernel", "attributes"),
    [
        ((1, 16, 4, 4), (3, 3, 8, 32), {"group": 2}),
        ((0, 16, 4, 4), KERNEL, {}),
        ((1, 0, 4, 4), (3, 3, 0, 32), {}),
        ((1, 16, 24, 24), KERNEL, {}),  # a large image
        ((64, 16, 4, 4), KERNEL, {}),  # many images
    ],
)
def test_other_convolutions_stay(
    image: tuple[int, ...], kernel: tuple[int, ...], attributes: dict[str, object]
) -> None:
    inputs = {"x": _normal(*image), "w": _normal(*kernel)}
    Rewrite(_turned_conv(**attributes), inputs, ConvToMatMul()).nothing()


@pytest.mark.parametrize(("extent", "is_small"), [(8, True), (9, False)])
def test_from_which_size_on(extent: int, is_small: bool) -> None:
    """64 * (32 + 32) = 4,096 elements of the image and the result, and as many of the kernel."""
    inputs = {"x": _normal(1, 32, 8, extent), "w": _normal(4, 1, 32, 32)}
    attributes = {"pads": (1, 0, 2, 0)}
    assert fires(_turned_conv(**attributes), inputs, ConvToMatMul()) == is_small


def test_other_kernels_stay() -> None:
    inputs = {"x": _normal(*IMAGE), "w": _normal(*KERNEL)}
    first = {"x": _normal(*IMAGE), "w": _normal(32, 16, 3, 3)}
    assert not fires(lambda b, x, w: b.Conv(x, w), first, ConvToMatMul())

    def constant(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Conv(x, b.op("Transpose", b.const(inputs["w"]), perm=(3, 2, 0, 1)))

    def inputs_last(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return b.Conv(x, b.transpose(w, (2, 3, 0, 1)))

    def shared(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        turned = _turned(b, w)
        return b.Add(b.Conv(x, turned), b.Conv(b.Neg(x), turned))

    assert not fires(constant, {"x": inputs["x"]}, ConvToMatMul())
    swapped = {"x": _normal(*IMAGE), "w": _normal(3, 3, 32, 16)}
    assert not fires(inputs_last, swapped, ConvToMatMul())
    assert not fires(shared, inputs, ConvToMatMul())


def test_operators_of_others_and_doubles_stay() -> None:
    inputs = {"x": _normal(*IMAGE), "w": _normal(*KERNEL)}
    assert fires(_turned_conv(), inputs, ConvToMatMul())
    assert not fires(lambda b, x, w: foreign(_turned_conv()(b, x, w)), inputs, ConvToMatMul())
    doubles = {name: array.astype(np.float64) for name, array in inputs.items()}
    assert not fires(_turned_conv(), doubles, ConvToMatMul())
    for name in ("VALID", "SAME_UPPER"):

        def build(b: GraphBuilder, x: oir.Value, w: oir.Value, kind: str = name) -> oir.Value:
            return padded_by(_turned_conv()(b, x, w), kind)

        assert not fires(build, inputs, ConvToMatMul())


def test_kernel_of_a_loop_is_transposed_once() -> None:
    def film(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda state, _: (_layer(state, w) * 0.01, None), x, None, 40)[0]

    x, w = _normal(1, 4, 4, 32), _normal(3, 3, 32, 32)
    program = against_jax(film, x, w).close().program
    assert program.report.nodes["Conv"] == 1
    assert not any(node.op_type == "MatMul" for node in all_nodes(program.model.graph))


def test_bound_kernels_and_free_batches_keep_the_convolution() -> None:
    x, w = _normal(1, 4, 4, 16), _normal(*KERNEL)
    assert hlo2onnx.translate(_layer, x, w).report.nodes["MatMul"]
    for options in ({"bind": {1: w}}, {"dynamic": {"x": "b, ..."}}, {"target": "onnx"}):
        nodes = hlo2onnx.translate(_layer, x, w, **options).report.nodes
        assert nodes["Conv"] and not nodes["MatMul"]
