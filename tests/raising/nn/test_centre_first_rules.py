"""centre-first: the mean in the bias."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from expressions import graph
from normalization_graphs import CUBE, X, mean_of, scale
from rewriting import Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.batch_normalization import CenterBeforeScale


def spread(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """Any factor that stands beside x."""
    return b.ReduceMax(x, b.i64([2]), keepdims=1)


CONSTANTS = {
    "mean": mean_of,
    "scale": scale,
    "spread": spread,
}
CENTRE = [
    "(f := spread(x), x * f - f * mean(x))[1]",
    "(f := spread(x), f * x - mean(x) * f)[1]",
    "(f := spread(x), x * f + Neg(mean(x)) * f)[1]",
    "(f := spread(x), Neg(mean(x)) * f + x * f)[1]",
]
BIASED = [
    "(f := spread(x), x * f + (Neg(mean(x)) * f + scale()))[1]",
    "(f := spread(x), x * f + (scale() - mean(x) * f))[1]",
]


@pytest.mark.parametrize("text", [*CENTRE, *BIASED])
def test_centre_first(text: str) -> None:
    found = Rewrite(graph(text, **CONSTANTS), {"x": X}, CenterBeforeScale(), tolerance=1e-6)
    found.gives("ReduceMax", "ReduceMean", "Sub", "Mul", *["Add"] * (text in BIASED))


def viewed(
    b: GraphBuilder, x: oir.Value, bias: tuple[int, ...] = (), of: tuple[int, ...] | None = None
) -> oir.Value:
    """The bias is made of two axes and stands beside x with three."""
    n = len(x.shape)  # type: ignore[arg-type]
    f = spread(b, x)
    flat = tuple(int(d) for d in x.shape[: n - 1])  # type: ignore[index]
    mean = b.reshape(mean_of(b, x), flat)
    product = b.Mul(mean, b.reshape(f, flat))
    shift = product if not bias else b.Sub(b.const(np.ones(bias, np.float32)), product)
    shift = b.reshape(shift, of or (*flat, 1))
    return b.Add(b.Mul(x, f), shift) if bias else b.Sub(b.Mul(x, f), shift)


@pytest.mark.parametrize("bias", [(), (4, 2), (1, 2)])
def test_centre_first_of_views(bias: tuple[int, ...]) -> None:
    found = Rewrite(lambda b, x: viewed(b, x, bias), {"x": X}, CenterBeforeScale(), tolerance=1e-6)
    assert found.fired and found.nodes["Mul"] == 1


@pytest.mark.parametrize("bias", [(4, 1), (2,), (1, 1)])
def test_a_bias_that_is_broadcast_before_it_is_reshaped(bias: tuple[int, ...]) -> None:
    Rewrite(lambda b, x: viewed(b, x, bias), {"x": X}, CenterBeforeScale()).nothing()


NO_CENTRE = [
    "(f := spread(x), x * f - mean(y) * f)[1]",
    "x * spread(x) - mean(x) * spread(y)",
    "(f := spread(x), x * f + mean(x) * f)[1]",
    "(f := spread(x), Neg(mean(x)) * f - x * f)[1]",
    "(f := spread(x), x * f - Exp(x) * f)[1]",
    "(f := spread(x), x * f - y * f)[1]",
    "x - y",
    "x * y + y",
    "(f := reshape(Exp(y), (1, 3, 3, 3)), x * f - mean(x) * f)[1]",
    # Products and views that are moved.
    "viewed(x, of=(3, 1, 3))",
    "viewed(x, (3, 3), (3, 1, 3))",
    "(f := spread(x), x * f - reshape(mean(x), (3, 1, 3)) * reshape(f, (3, 1, 3)))[1]",
    "(f := spread(x), x * f - reshape(mean(x) * f, (3, 1, 3)))[1]",
]


@pytest.mark.parametrize("text", NO_CENTRE)
def test_no_centre_first(text: str) -> None:
    inputs = {"x": CUBE, "y": CUBE + 5}
    build = graph(text, viewed=viewed, **CONSTANTS)
    Rewrite(build, inputs, CenterBeforeScale()).nothing()
