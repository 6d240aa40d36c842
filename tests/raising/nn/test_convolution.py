"""Padding that becomes a part of a convolution, and padding that stays."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign, padded_by

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.convolution import FoldPadIntoConv


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def _conv(**attributes: object) -> Build:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return b.Conv(x, w, **attributes)

    return build


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
