"""batch_norm_inference, batch_norm_training and batch_norm_grad."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from against_xla import Run, against_xla
from mlir_text import tensor

from hlo2onnx.frontend.mlir.types import numpy_type

INFERENCE = """
module {{ func.func public @main(
    %arg0: {x}, %arg1: {f}, %arg2: {f}, %arg3: {f}, %arg4: {f}) -> {x} {{
  %0 = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg2, %arg3, %arg4) {{
    epsilon = {epsilon} : f32, feature_index = {axis} : i64
  }} : ({x}, {f}, {f}, {f}, {f}) -> {x}
  return %0 : {x}
}} }}
"""
TRAINING = """
module {{ func.func public @main(%arg0: {x}, %arg1: {f}, %arg2: {f}) -> ({x}, {f}, {f}) {{
  %0:3 = "stablehlo.batch_norm_training"(%arg0, %arg1, %arg2) {{
    epsilon = {epsilon} : f32, feature_index = {axis} : i64
  }} : ({x}, {f}, {f}) -> ({x}, {f}, {f})
  return %0#0, %0#1, %0#2 : {x}, {f}, {f}
}} }}
"""
GRAD = """
module {{ func.func public @main(
    %arg0: {x}, %arg1: {f}, %arg2: {f}, %arg3: {f}, %arg4: {x}) -> ({x}, {f}, {f}) {{
  %0:3 = "stablehlo.batch_norm_grad"(%arg0, %arg1, %arg2, %arg3, %arg4) {{
    epsilon = {epsilon} : f32, feature_index = {axis} : i64
  }} : ({x}, {f}, {f}, {f}, {x}) -> ({x}, {f}, {f})
  return %0#0, %0#1, %0#2 : {x}, {f}, {f}
}} }}
"""
TEXTS = {"inference": INFERENCE, "training": TRAINING, "grad": GRAD}

SHAPES = [
    ((2, 3, 5, 4), 1),
    ((2, 5, 4, 3), 3),
    ((3, 8), 0),
    ((8, 3), 1),
    ((2, 3, 4), 1),
    ((4, 2, 3, 2, 2), 2),
    ((6,), 0),
    ((1, 3, 1), 1),
    ((0, 3), 1),
    ((3, 0), 0),
    ((2, 0, 2), 1),
]


def text_of(
    kind: str, shape: Sequence[int], axis: int, element: str = "f32", epsilon: str = "1.0e-3"
) -> str:
    x = tensor(shape, element)
    return TEXTS[kind].format(x=x, f=f"tensor<{shape[axis]}x{element}>", epsilon=epsilon, axis=axis)


def inputs_of(
    kind: str,
    shape: Sequence[int],
    axis: int,
    element: str = "f32",
    offset: float = 0,
    seed: int = 0,
) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) + offset
    scale, bias = rng.uniform(0.5, 2, shape[axis]), rng.standard_normal(shape[axis])
    mean, variance = offset + rng.standard_normal(shape[axis]), rng.uniform(0.5, 2, shape[axis])
    by_kind = {
        "inference": [x, scale, bias, mean, variance],
        "training": [x, scale, bias],
        "grad": [x, scale, mean, variance, rng.standard_normal(shape)],
    }
    return [array.astype(numpy_type(element)) for array in by_kind[kind]]


def run(kind: str, shape: Sequence[int], axis: int, element: str = "f32", **options: str) -> Run:
    text = text_of(kind, shape, axis, element, **options)
    return against_xla(text, *inputs_of(kind, shape, axis, element))


@pytest.mark.costly
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("kind", TEXTS)
def test_shapes(kind: str, shape: tuple[int, ...], axis: int) -> None:
    run(kind, shape, axis).close()


@pytest.mark.parametrize("element", ["f64", "f16", "bf16"])
@pytest.mark.parametrize("axis", [1, 3])
@pytest.mark.parametrize("kind", TEXTS)
def test_element_types(kind: str, axis: int, element: str) -> None:
    run(kind, (2, 3, 5, 4), axis, element).close()


@pytest.mark.costly
@pytest.mark.parametrize("epsilon", ["0.0", "1.0", "1.0e-5"])
@pytest.mark.parametrize("kind", TEXTS)
def test_epsilon(kind: str, epsilon: str) -> None:
    run(kind, (4, 3, 5), 1, epsilon=epsilon).close()
    run(kind, (4, 3, 5), 2, epsilon=epsilon).close()


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("kind", TEXTS)
def test_special_values(kind: str, axis: int) -> None:
    """NaN and infinities stay where they are; a negative variance makes its feature NaN."""
    inputs = inputs_of(kind, (4, 5, 5), axis)
    inputs[0].reshape(-1)[[0, 7, 31]] = [np.nan, np.inf, -np.inf]
    if kind != "training":
        inputs[-1 if kind == "inference" else 3][1] = -2
    against_xla(text_of(kind, (4, 5, 5), axis, epsilon="0.0"), *inputs).close()


@pytest.mark.parametrize("axis", [1, 2])
def test_large_mean_keeps_the_variance(axis: int) -> None:
    """1,000 deviations away from zero XLA's variance has no right digit; ours is the truth."""
    shape = (16, 4, 4)
    x, scale, bias = inputs_of("training", shape, axis, offset=1000)
    run = against_xla(text_of("training", shape, axis), x, scale, bias)
    others = tuple(number for number in range(3) if number != axis)
    x, scale, bias = (array.astype(np.float64) for array in (x, scale, bias))
    mean, variance = x.mean(others), x.var(others)
    column = [-1 if number == axis else 1 for number in range(3)]
    mean_, factor, bias_ = (
        item.reshape(column) for item in (mean, scale / np.sqrt(variance + 1e-3), bias)
    )
    for y, *statistics in run.actual:
        # The mean is rounded to six digits behind the point.
        np.testing.assert_allclose(y, (x - mean_) * factor + bias_, rtol=0, atol=2e-4)
        np.testing.assert_allclose(statistics[0], mean, rtol=2e-7)
        np.testing.assert_allclose(statistics[1], variance, rtol=1e-5)


def test_graphs() -> None:
    """Features at axis 1 are ONNX's own layout; elsewhere x is neither transposed nor reshaped."""
    run("inference", (2, 3, 4, 4), 1).graph_is("BatchNormalization")
    last = run("inference", (2, 4, 4, 3), 3)
    assert last.nodes["Sub"] == last.nodes["Mul"] == 1
    last.has_no("Transpose", "BatchNormalization", "Expand")
    run("training", (2, 3, 4, 4), 1).has_no("Transpose", "Expand")
