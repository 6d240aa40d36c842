"""Gradients of average pools without overlap: each element is repeated."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign, padded_by

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.pool_gradient import PoolingGradient

EDGES = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan, 1.5], np.float32)
X = np.resize(EDGES, (2, 3, 4, 5)).copy()


def _planes(
    window: int = 2,
    inner: bool = False,
    fill: float = 0,
    high: int = 0,
    starts: tuple[int, int] | None = None,
    step: int | None = None,
    groups: int = 3,
    bias: bool = False,
    weights: tuple[int, ...] | None = None,
    **attributes: object,
) -> Build:
    """The same with channels second; `inner` puts the gaps before the elements."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        gap, low = window - 1, 0 if inner else 1
        edges = [0, 0, low, gap * inner, low, gap * inner]
        behind = [0, 0, 1 - low + high, gap * (not inner), 1 - low, gap * (not inner)]
        tiles = b.reshape(x, (2, 3, 4, 1, 5, 1))
        padded = b.Pad(tiles, b.i64([*edges, *behind]), b.scalar_like(fill, x))
        rows, columns = (5 + high) * window, 6 * window
        whole = b.reshape(padded, (2, 3, rows, columns))
        here = starts or (low, low)
        size = (4 * window + gap, 5 * window + gap)
        by = [1, 1] if step is None else [step, 1]
        ends = [a + n * s - (s - 1) for a, n, s in zip(here, size, by, strict=True)]
        last = [] if step is None else [b.i64(by)]
        part = b.op("Slice", whole, b.i64(here), b.i64(ends), b.i64([2, 3]), *last)
        dims = weights or (3, 3 // groups, window, window)
        shift = [b.const(np.ones(3, np.float32))] if bias else []
        ones = b.const(np.ones(dims, np.float32))
        return b.Conv(part, ones, *shift, group=groups, **attributes)

    return build


PLANES = np.ascontiguousarray(X[:, :3])
PLAIN = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)}


@pytest.mark.parametrize(
    "changed",
    [{}, {"window": 3}, {"inner": True}, {"inner": True, "window": 3}, PLAIN, {"step": 1}],
)
def test_planes(changed: dict[str, object]) -> None:
    found = Rewrite(_planes(**changed), {"x": PLANES}, PoolingGradient())  # type: ignore[arg-type]
    assert found.nodes["Gather"] == 2 and not found.nodes["Conv"]


@pytest.mark.parametrize(
    "changed",
    [
        {"fill": 1},
        {"bias": True},
        {"groups": 1},
        {"strides": (2, 1)},
        {"dilations": (2, 2)},
        {"pads": (0, 0, 0, 1)},
        {"step": 2, "high": 7},
        {"starts": (0, 1)},
        {"weights": (6, 1, 2, 2)},
        {"weights": (3, 1, 3, 2)},
    ],
)
def test_other_planes_stay(changed: dict[str, object]) -> None:
    build = _planes(**changed)  # type: ignore[arg-type]
    assert not fires(build, {"x": PLANES}, PoolingGradient())


ONES = np.ones((3, 1, 2, 2), np.float32)


def pairs(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """Two elements, then a zero, along one axis."""
    tiles, edges = b.reshape(x, (2, 3, 10, 2)), b.i64([0, 0, 1, 0, 0, 0, 0, 1])
    padded = b.Pad(tiles, edges, b.scalar_like(0, x))
    part = b.slice(b.reshape(padded, (2, 3, 33)), [1], [33], axes=[2])
    result: oir.Value = b.Conv(part, b.const(np.ones((3, 1, 3), np.float32)), group=3)
    return result


UNSPREAD: dict[str, Build] = {
    "an operand": lambda b, x: b.Conv(x, b.const(ONES), group=3),
    "a function": lambda b, x: b.Conv(b.Exp(x), b.const(ONES), group=3),
    "a part": lambda b, x: b.Conv(b.slice(x, [0, 0], [3, 3], axes=[2, 3]), b.const(ONES), group=3),
    "another shape": lambda b, x: b.Conv(b.reshape(x, (2, 3, 2, 10)), b.const(ONES), group=3),
    "another shape of a function": lambda b, x: b.Conv(
        b.reshape(b.Exp(x), (2, 3, 2, 10)), b.const(ONES), group=3
    ),
    "padded by itself": lambda b, x: padded_by(_planes()(b, x), "SAME_UPPER"),  # type: ignore[arg-type]
    "gaps behind pairs": pairs,
    "computed weights": lambda b, x: b.Conv(x, b.Exp(b.const(ONES)), group=3),
    "an operator of others": lambda b, x: foreign(_planes()(b, x)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", UNSPREAD)
def test_what_has_no_gaps(name: str) -> None:
    assert not fires(UNSPREAD[name], {"x": PLANES}, PoolingGradient())


@pytest.mark.parametrize("window", [(2, 2), (3, 3), (2, 3)])
def test_gradient_in_jax(window: tuple[int, int]) -> None:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.sin(nn.avg_pool(x, window, strides=window)).sum()

    x = np.random.default_rng(0).normal(size=(2, 6, 12, 4)).astype(np.float32)
    program = hlo2onnx.translate(jax.jit(jax.grad(loss)).lower(x))
    assert program.report.rules["pooling-gradient"] == 1
    assert not program.report.nodes["Pad"]
    verification = program.verify(x)
    assert verification.ok, verification
