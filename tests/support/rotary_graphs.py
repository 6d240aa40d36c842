"""Rotary embeddings as graphs: parts of features, rotated and joined."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder

RNG = np.random.default_rng(0)
T, H, D = 5, 3, 8
X = RNG.normal(size=(2, T, H, D)).astype(np.float32)
ANGLES = RNG.normal(size=(T, 1, D // 2)).astype(np.float32)
INPUTS = {"x": X, "cos": np.cos(ANGLES), "sin": np.sin(ANGLES)}


def part(
    b: GraphBuilder, x: oir.Value, start: int, stop: int, step: int = 1, axis: int = -1
) -> oir.Value:
    return b.slice(x, [start], [stop], [step], axes=[axis % len(x.shape)])  # type: ignore[arg-type]


def halves(b: GraphBuilder, x: oir.Value, axis: int = -1) -> tuple[oir.Value, oir.Value]:
    n = int(x.shape[axis])  # type: ignore[index]
    return part(b, x, 0, n // 2, axis=axis), part(b, x, n // 2, n, axis=axis)


def split(
    b: GraphBuilder, x: oir.Value, axis: int | None = -1, first: int | None = None
) -> tuple[oir.Value, oir.Value]:
    n = int(x.shape[axis or 0])  # type: ignore[index]
    first = n // 2 if first is None else first
    return b.outputs("Split", x, b.i64([first, n - first]), n_outputs=2, axis=axis)  # type: ignore[no-any-return]


def turned(
    b: GraphBuilder, one: oir.Value, other: oir.Value, cos: oir.Value, sin: oir.Value
) -> tuple[oir.Value, oir.Value]:
    real = b.Sub(b.Mul(one, cos), b.Mul(other, sin))
    return real, b.Add(b.Mul(other, cos), b.Mul(one, sin))


def joined(
    b: GraphBuilder,
    parts: tuple[oir.Value, oir.Value],
    cos: oir.Value,
    sin: oir.Value,
    axis: int = -1,
) -> oir.Value:
    return b.concat(turned(b, *parts, cos, sin), axis)


def columns(b: GraphBuilder, parts: tuple[oir.Value, oir.Value], cos: oir.Value, sin: oir.Value,
            dims: tuple[int, ...] = X.shape) -> oir.Value:  # fmt: skip
    pair = [b.unsqueeze(y, [len(y.shape)]) for y in turned(b, *parts, cos, sin)]  # type: ignore[arg-type]
    return b.reshape(b.concat(pair, -1), dims)
