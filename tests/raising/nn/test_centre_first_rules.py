"""centre-first: the mean in the bias."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from normalization_graphs import CUBE, X, mean_of, scale
from rewriting import Build, Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.batch_normalization import CenterBeforeScale


def spread(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """Any factor that stands beside x."""
    return b.ReduceMax(x, b.i64([2]), keepdims=1)


CENTRE: dict[str, Build] = {
    "subtracted": lambda b, x: b.Sub(b.Mul(x, f := spread(b, x)), b.Mul(f, mean_of(b, x))),
    "the other orders": lambda b, x: b.Sub(b.Mul(f := spread(b, x), x), b.Mul(mean_of(b, x), f)),
    "added": lambda b, x: b.Add(b.Mul(x, f := spread(b, x)), b.Mul(b.Neg(mean_of(b, x)), f)),
    "added in front": lambda b, x: b.Add(
        b.Mul(b.Neg(mean_of(b, x)), f := spread(b, x)), b.Mul(x, f)
    ),
}
BIASED: dict[str, Build] = {
    "a bias": lambda b, x: b.Add(
        b.Mul(x, f := spread(b, x)), b.Add(b.Mul(b.Neg(mean_of(b, x)), f), scale(b))
    ),
    "a bias minus": lambda b, x: b.Add(
        b.Mul(x, f := spread(b, x)), b.Sub(scale(b), b.Mul(mean_of(b, x), f))
    ),
}


@pytest.mark.parametrize("name", [*CENTRE, *BIASED])
def test_centre_first(name: str) -> None:
    build = (CENTRE | BIASED)[name]
    found = Rewrite(build, {"x": X}, CenterBeforeScale(), tolerance=1e-6)
    found.gives("ReduceMax", "ReduceMean", "Sub", "Mul", *["Add"] * (name in BIASED))


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


NO_CENTRE: dict[str, Build] = {
    "the mean of another": lambda b, x, y: b.Sub(
        b.Mul(x, f := spread(b, x)), b.Mul(mean_of(b, y), f)
    ),
    "another factor": lambda b, x, y: b.Sub(
        b.Mul(x, spread(b, x)), b.Mul(mean_of(b, x), spread(b, y))
    ),
    "added, not subtracted": lambda b, x, y: b.Add(
        b.Mul(x, f := spread(b, x)), b.Mul(mean_of(b, x), f)
    ),
    "subtracted twice": lambda b, x, y: b.Sub(
        b.Mul(b.Neg(mean_of(b, x)), f := spread(b, x)), b.Mul(x, f)
    ),
    "no mean": lambda b, x, y: b.Sub(b.Mul(x, f := spread(b, x)), b.Mul(b.Exp(x), f)),
    "an operand": lambda b, x, y: b.Sub(b.Mul(x, f := spread(b, x)), b.Mul(y, f)),
    "a difference": lambda b, x, y: b.Sub(x, y),
    "a sum": lambda b, x, y: b.Add(b.Mul(x, y), y),
    "a factor of more axes": lambda b, x, y: b.Sub(
        b.Mul(x, f := b.reshape(b.Exp(y), (1, 3, 3, 3))), b.Mul(mean_of(b, x), f)
    ),
    "a product that is moved": lambda b, x, y: viewed(b, x, of=(3, 1, 3)),
    "a product beside a bias that is moved": lambda b, x, y: viewed(b, x, (3, 3), (3, 1, 3)),
    "views that are moved": lambda b, x, y: b.Sub(
        b.Mul(x, f := spread(b, x)),
        b.Mul(b.reshape(mean_of(b, x), (3, 1, 3)), b.reshape(f, (3, 1, 3))),
    ),
    "a product of the same that is moved": lambda b, x, y: b.Sub(
        b.Mul(x, f := spread(b, x)), b.reshape(b.Mul(mean_of(b, x), f), (3, 1, 3))
    ),
}


@pytest.mark.parametrize("name", NO_CENTRE)
def test_no_centre_first(name: str) -> None:
    Rewrite(NO_CENTRE[name], {"x": CUBE, "y": CUBE + 5}, CenterBeforeScale()).nothing()
