"""Conv and ConvTranspose spelled with MatMul give what the operators themselves give."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.report import Report
from hlo2onnx.runtime.sessions import OrtProgram, check_model
from hlo2onnx.targets import load_target
from hlo2onnx.targets.decompositions.convolution import conv_as_matmul, conv_transpose_as_matmul
from hlo2onnx.targets.legalize import legalize

Build = Callable[..., oir.Value]


def run(build: Build, *arrays: np.ndarray) -> tuple[np.ndarray, Counter[str]]:
    inputs = dict(zip(("x", "w", "bias"), arrays, strict=False))
    model = model_of(build, inputs)
    legalize(model, load_target("ort-cpu"), "xla", Report())
    proto = oir.to_proto(model)
    check_model(proto)
    nodes = Counter(node.op_type for node in model.graph)
    return OrtProgram(proto.SerializeToString())(inputs)[0], nodes


def conv(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int = 1,
) -> np.ndarray:
    """Conv by its definition: a sum over kernel positions."""
    rank = len(strides)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    spans = [(size - 1) * step for size, step in zip(w.shape[2:], dilations, strict=True)]
    windows = [
        (extent - span - 1) // stride + 1
        for extent, span, stride in zip(x.shape[2:], spans, strides, strict=True)
    ]
    y = np.zeros((x.shape[0], group, w.shape[0] // group, *windows), x.dtype)
    for position in itertools.product(*map(range, w.shape[2:])):
        rows = zip(position, dilations, strides, windows, strict=True)
        cut = tuple(slice(p * d, p * d + (n - 1) * s + 1, s) for p, d, s, n in rows)
        seen = x[(slice(None), slice(None), *cut)]
        seen = seen.reshape(x.shape[0], group, x.shape[1] // group, *windows)
        weights = w[(slice(None), slice(None), *position)].reshape(group, -1, w.shape[1])
        y += np.einsum("ngc...,goc->ngo...", seen, weights)
    return y.reshape(x.shape[0], w.shape[0], *windows)


def whole(dims: Sequence[int], seed: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, dims).astype(dtype)


SHAPES = {
    "by kernel positions": ((2, 3, 9, 8), (4, 3, 3, 2), (1, 2), (1, 0, 2, 1), (1, 2), 1),
    "by output positions": ((3, 2, 9, 9), (4, 2, 8, 7), (1, 1), (0, 0, 1, 0), (1, 1), 1),
    "by output positions, groups": ((2, 4, 9, 9), (6, 2, 8, 7), (1, 2), (0, 0, 1, 0), (1, 1), 2),
    "many kernel positions": ((1, 2, 40, 4), (2, 2, 18, 2), (1, 1), (0, 1, 0, 1), (1, 1), 1),
    "many kernel positions on both axes": (
        (1, 1, 40, 41), (2, 1, 17, 18), (1, 1), (0, 0, 0, 0), (1, 1), 1,
    ),
    "many output positions": ((1, 2, 40), (2, 2, 23), (1,), (0, 0), (1,), 1),
    "many output positions, dilated": ((2, 4, 60), (4, 2, 20), (1,), (0, 0), (2,), 2),
    "depthwise": ((2, 3, 7, 7), (6, 1, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 3),
    "pointwise": ((2, 3, 5, 5), (4, 3, 1, 1), (2, 3), (0, 0, 0, 0), (1, 1), 1),
    "1-D": ((2, 3, 9), (4, 3, 3), (2,), (1, 1), (2,), 1),
    "3-D": ((1, 2, 4, 5, 4), (2, 2, 2, 3, 2), (1, 2, 1), (1, 0, 1, 0, 2, 1), (2, 1, 1), 1),
    "4-D": ((1, 2, 3, 3, 3, 3), (2, 2, 2, 1, 2, 2), (1,) * 4, (0,) * 8, (1,) * 4, 1),
    "no spatial axes": ((3, 4), (6, 2), (), (), (), 2),
}  # fmt: skip


def check_conv(shape: tuple, dtype: str) -> None:  # type: ignore[type-arg]
    x_dims, w_dims, strides, pads, dilations, group = shape
    x, w = whole(x_dims, 0, dtype), whole(w_dims, 1, dtype)

    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return conv_as_matmul(b, x, w, strides=strides, pads=pads, dilations=dilations, group=group)

    got, nodes = run(build, x, w)
    wanted = conv(x, w, strides, pads, dilations, group)
    np.testing.assert_array_equal(got, wanted)
    # One group has no axis.
    assert nodes["Slice"] <= sum(w_dims[2:])
    assert nodes["Reshape"] <= 3 or group > 1 or not strides
    assert nodes["MatMul"] == 1
    assert nodes["Conv"] == 0


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_conv(shape: tuple, dtype: str) -> None:  # type: ignore[type-arg]
    check_conv(shape, dtype)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_conv_transpose(shape: tuple) -> None:  # type: ignore[type-arg]
    """Against the adjoint of Conv: <conv(x, w), y> == <x, conv_transpose(y, w)> for every x, y."""
    x_dims, w_dims, strides, pads, dilations, group = shape
    x, w = whole(x_dims, 0), whole(w_dims, 1)
    forward = conv(x, w, strides, pads, dilations, group)
    y = whole(forward.shape, 2)
    rank = len(strides)
    full = [
        (extent - 1) * stride + (size - 1) * dilation + 1
        for extent, stride, size, dilation in zip(
            y.shape[2:], strides, w_dims[2:], dilations, strict=True
        )
    ]
    extra = [
        extent + pads[axis] + pads[rank + axis] - full[axis]
        for axis, extent in enumerate(x_dims[2:])
    ]

    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return conv_transpose_as_matmul(
            b, x, w, strides=strides, pads=pads, dilations=dilations, group=group,
            output_padding=extra,
        )  # fmt: skip

    got, _ = run(build, y, w)
    assert got.shape == x.shape
    assert (forward * y).sum() == (x * got).sum()


@pytest.mark.parametrize("output_padding", [None, (1, 0)])
def test_nodes_of_f64(output_padding: tuple[int, int] | None) -> None:
    """The legalizer replaces the nodes, bias and defaults included; f32 has the kernels."""
    attributes = {"output_padding": output_padding, "strides": (2, 1), "group": 2}
    x, w, bias = whole((2, 4, 5, 4), 0), whole((4, 3, 2, 3), 1), whole((6,), 2)

    def transposed(b: GraphBuilder, x: oir.Value, w: oir.Value, bias: oir.Value) -> oir.Value:
        return b.ConvTranspose(x, w, bias, **attributes)

    def plain(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return b.Conv(x, w)

    got, nodes = run(transposed, x, w, bias)
    want, _ = run(transposed, *(a.astype(np.float32) for a in (x, w, bias)))
    np.testing.assert_array_equal(got, want)
    assert got.dtype == np.float64
    assert nodes["ConvTranspose"] == 0
    got, nodes = run(plain, x, whole((3, 4, 2, 2), 3))
    want, _ = run(plain, x.astype(np.float32), whole((3, 4, 2, 2), 3, "float32"))
    np.testing.assert_array_equal(got, want)
    assert nodes["Conv"] == 0
