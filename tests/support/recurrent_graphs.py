"""Recurrent cells for testing single rules: their tensors, products and slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
from loop_graphs import LoopRewrite, loop, number

from hlo2onnx.ir.builder import GraphBuilder

RNG = np.random.default_rng(0)
TRIPS, BATCH, INPUTS, WIDTH = 4, 3, 5, 2
Value = oir.Value


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


X, H, C = normal(TRIPS, BATCH, INPUTS), normal(BATCH, WIDTH), normal(BATCH, WIDTH)
W, R = normal(INPUTS, 4 * WIDTH), normal(WIDTH, 4 * WIDTH)
BIAS, OTHER = normal(4 * WIDTH), normal(1, 4 * WIDTH)


def logistic(b: GraphBuilder, x: Value) -> Value:
    made: Value = b.Div(number(b, 1), b.Add(number(b, 1), b.Exp(b.Neg(x))))
    return made


def cut(b: GraphBuilder, x: Value, k: int, axis: int = 1) -> Value:
    return b.slice(x, [k * WIDTH], [(k + 1) * WIDTH], axes=[axis])


def run(
    step: Callable[..., Any], rule: Any, states: int, count: int = TRIPS, **inputs: np.ndarray
) -> LoopRewrite:
    """The loop whose body is `step(b, x of the trip, *states)`."""

    def build(b: GraphBuilder, x: Value, **rest: Value) -> Any:
        given = [rest.pop("h"), rest.pop("c")][:states]

        def body(trip: Value, *states: Value) -> Any:
            return step(b, b.Gather(x, trip, axis=0), *states, **rest)

        return [b.Neg(value) for value in loop(b, count, given, body)]

    return LoopRewrite(build, {"x": X, "h": H, "c": C, **inputs}, rule, tolerance=1e-5)


def products(b: GraphBuilder, x: Value, h: Value) -> Value:
    made: Value = b.Add(b.MatMul(x, b.const(W)), b.MatMul(h, b.const(R)))
    return made
