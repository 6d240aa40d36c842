"""Resize of images as jax.image.resize and its like compute it: the nodes, and XLA's numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, fires

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.resize import NearestResize, ResizeOperator
from hlo2onnx.raising.rules.nn.resize_modes import (
    CUBIC,
    LINEAR,
    LINEAR_ANTIALIASED,
    NEAREST,
    Mode,
    index_modes,
    interpolation,
    is_resampling,
    weight_modes,
)
from hlo2onnx.runtime.sessions import OrtProgram

RNG = np.random.default_rng(0)
DIMS = ("NHWC", "HWIO", "NHWC")


def image(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def raised(function: Callable[..., Any], x: np.ndarray, **options: Any) -> list[str]:
    """The operators of a function whose numbers are those of XLA, within 2e-6 of the largest."""
    program = hlo2onnx.translate(jax.jit(function).lower(x), **options)
    want = np.asarray(jax.jit(function)(x))
    (got,) = OrtProgram(program.model_proto.SerializeToString())(
        {program.model_proto.graph.input[0].name: x}
    )
    assert got.shape == want.shape and got.dtype == want.dtype
    error = np.abs(got.astype(np.float64) - want).max()
    assert error <= 2e-6 * np.abs(want.astype(np.float64)).max(), error
    return sorted(node.op_type for node in program.model_proto.graph.node)


def resized(shape: tuple[int, ...], method: str, **options: Any) -> Callable[..., Any]:
    return lambda x: jax.image.resize(x, shape, method, **options)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("before", "after", "method", "options"),
    [
        ((2, 64, 64, 3), (2, 128, 128, 3), "linear", {}),
        ((2, 3, 64, 64), (2, 3, 128, 128), "linear", {}),
        ((1, 128, 128, 3), (1, 64, 32, 3), "linear", {"antialias": False}),
        ((1, 256, 256, 3), (1, 128, 128, 3), "linear", {}),
        ((1, 3, 256, 256), (1, 3, 128, 128), "linear", {}),
        ((1, 3, 256, 256), (1, 3, 128, 128), "cubic", {}),
        ((64, 64), (128, 128), "linear", {}),
        ((1, 3, 64, 64), (1, 3, 32, 32), "area", {}),
        ((2, 8, 8, 3), (2, 16, 16, 3), "linear", {}),
        ((2, 2, 2, 3), (2, 4, 6, 3), "linear", {}),
    ],
)
def test_interpolation_is_one_resize(
    before: tuple[int, ...], after: tuple[int, ...], method: str, options: dict[str, Any]
) -> None:
    assert raised(resized(after, method, **options), image(*before)) == ["Resize"]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((2, 8, 8, 3), (2, 16, 16, 3)),
        ((2, 3, 8, 8), (2, 3, 24, 16)),
        ((2, 8, 8, 3), (2, 4, 4, 3)),
        ((2, 3, 8, 12), (2, 3, 4, 6)),
    ],
)
def test_nearest_is_one_resize(before: tuple[int, ...], after: tuple[int, ...], dtype: Any) -> None:
    x = (image(*before) * 50 + 100).astype(dtype)
    casts = ["Cast", "Cast"] if dtype == np.float16 else []  # there is no kernel of f16
    assert raised(resized(after, "nearest"), x) == [*casts, "Resize"]


@pytest.mark.parametrize(("moves", "expected"), [(22, True), (23, False)])
def test_moves_between_that_are_followed(moves: int, expected: bool) -> None:
    """With the two Gathers they are 24."""
    rows = np.arange(8) // 2

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        x = b.Gather(x, b.i64(rows.tolist()), axis=3)
        for _ in range(moves):
            x = b.Transpose(x, perm=(0, 1, 2, 3))
        result: oir.Value = b.Gather(x, b.i64(rows.tolist()), axis=2)
        return result

    assert fires(build, {"x": image(1, 3, 4, 4)}, NearestResize()) == expected


def test_nearest_of_every_size() -> None:
    """Where indices are a matter of rounding, the Gathers stay; XLA's elements either way."""
    for before in (3, 10):
        for after in (4, 7, 15, 20):
            shape = (1, 1, before, before)
            raised(resized((1, 1, after, after), "nearest"), image(*shape))


@pytest.mark.parametrize("mode", [LINEAR, LINEAR_ANTIALIASED, CUBIC])
def test_weights_are_those_of_the_runtime(mode: Mode) -> None:
    """Whatever mode is recognized, ONNX Runtime's Resize then gives."""
    for before, after in [(4, 8), (8, 4), (8, 16), (16, 2), (5, 10), (7, 17), (17, 7), (9, 3)]:
        weights = interpolation(mode, before, after).astype(np.float32)
        modes = weight_modes(weights)
        if mode not in modes or (mode == CUBIC and before < 4):
            continue
        x = image(1, 1, before, before)

        def build(b: GraphBuilder, x: oir.Value, n: int = after, kept: Mode = mode) -> oir.Value:
            sizes = b.i64([1, 1, n, n])
            types = [(oir.DataType.FLOAT, (1, 1, n, n))]
            return b.op("Resize", x, None, None, sizes, types=types, **kept.attributes)  # type: ignore[arg-type]

        model = Rewrite(build, {"x": x}, ResizeOperator()).model
        (got,) = OrtProgram(oir.to_proto(model).SerializeToString())({"x": x})
        exact = interpolation(mode, before, after)
        want = exact.T @ x[0, 0].astype(np.float64) @ exact
        assert np.abs(got[0, 0] - want).max() <= 2e-6 * np.abs(want).max(), (before, after)


def between_convolutions(w: np.ndarray, method: str, extent: int) -> Callable[[jax.Array], Any]:
    def conv(x: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=DIMS)

    def model(x: jax.Array) -> jax.Array:
        y = jax.nn.relu(conv(x))
        return conv(jax.image.resize(y, (y.shape[0], extent, extent, y.shape[3]), method))

    return model


@pytest.mark.parametrize("method", ["cubic", "lanczos3"])
def test_small_images_between_convolutions_are_products_without_transposes(method: str) -> None:
    found = raised(between_convolutions(image(3, 3, 4, 4), method, 16), image(2, 8, 8, 4))
    assert found == ["Conv", "Conv", "MatMul", "MatMul", "Relu", "Transpose", "Transpose"]


def test_large_images_between_convolutions_are_resized_without_transposes() -> None:
    found = raised(between_convolutions(image(1, 1, 2, 2), "nearest", 128), image(1, 64, 64, 2))
    assert found == ["Conv", "Conv", "Relu", "Resize", "Transpose", "Transpose"]


def test_several_resizes_in_a_row() -> None:
    def model(x: jax.Array) -> jax.Array:
        y = jax.image.resize(x, (1, 8, 8, 3), "nearest")
        return jax.image.resize(jnp.tanh(y), (1, 16, 16, 3), "nearest")

    assert raised(model, image(1, 4, 4, 3)) == ["Resize", "Resize", "Tanh"]


@pytest.mark.parametrize("shape", [(64, 64, 3), (3, 64, 64)])
def test_one_image(shape: tuple[int, ...]) -> None:
    after = tuple(2 * n if n > 3 else n for n in shape)
    assert raised(resized(after, "linear"), image(*shape)) == ["Resize", "Squeeze", "Unsqueeze"]


def repeat(x: jax.Array, axes: tuple[int, ...], count: int = 2) -> jax.Array:
    for axis in axes:
        x = jnp.repeat(x, count, axis)
    return x


def blocks(x: jax.Array) -> jax.Array:
    n, h, w, c = x.shape
    return jnp.broadcast_to(x[:, :, None, :, None], (n, h, 2, w, 3, c)).reshape(n, 2 * h, 3 * w, c)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: repeat(x, (1, 2)),
        lambda x: repeat(x, (2, 3), 3),
        lambda x: repeat(x, (2, 1), 5),
        lambda x: jnp.kron(x, jnp.ones((1, 2, 2, 1), x.dtype)),
        blocks,
    ],
)
def test_repeated_pixels(function: Callable[..., Any], dtype: Any) -> None:
    x = (image(2, 4, 6, 8) * 50 + 100).astype(dtype)
    found = raised(function, x)
    assert "Resize" in found and "Expand" not in found, found


def test_repeated_pixels_between_convolutions() -> None:
    w = image(1, 1, 2, 2)

    def conv(x: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=DIMS)

    found = raised(lambda x: conv(repeat(conv(x), (1, 2))), image(2, 8, 8, 2))
    assert found == ["Conv", "Conv", "Resize", "Transpose", "Transpose"]


def test_a_symbolic_batch() -> None:
    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 64, 64, 3"), np.float32)
    function = jax.jit(lambda x: jax.image.resize(x, (x.shape[0], 128, 128, 3), "linear"))
    program = hlo2onnx.translate(jax.export.export(function)(shape))
    assert program.report.nodes["Resize"] == 1, program.report.nodes
    assert program.verify(image(3, 64, 64, 3)).ok


@pytest.mark.wide
def test_what_is_no_resize() -> None:
    last = resized((1, 16, 8, 3), "linear")
    assert "Resize" not in raised(last, image(1, 8, 8, 3)), "one axis"
    shifted = raised(
        lambda x: jax.image.scale_and_translate(
            x, (1, 64, 64, 3), (1, 2), jnp.full(2, 2.0), jnp.full(2, 0.25), "linear"
        ),
        image(1, 32, 32, 3),
    )
    assert "Resize" not in shifted
    assert "Resize" not in raised(resized((1, 60, 60, 3), "lanczos3"), image(1, 30, 30, 3))
    assert "Resize" not in raised(resized((1, 150, 150, 3), "linear"), image(1, 224, 224, 3))
    f64 = image(1, 8, 8, 3).astype(np.float64)
    with jax.enable_x64(True):
        assert "Resize" not in raised(resized((1, 16, 16, 3), "linear"), f64)


def test_cubic_without_antialias_is_no_resize() -> None:
    """Its kernel takes hundreds of times as long."""
    found = raised(resized((1, 3, 64, 64), "cubic", antialias=False), image(1, 3, 128, 128))
    assert found == ["MatMul", "MatMul"]


def test_what_others_read_stays() -> None:
    w = interpolation(LINEAR, 64, 128).astype(np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        wide = b.MatMul(x, b.const(w))
        return [b.Neg(wide), b.MatMul(b.const(np.ascontiguousarray(w.T)), wide)]

    Rewrite(build, {"x": image(1, 2, 64, 64)}, ResizeOperator()).nothing()


def test_how_far_weights_may_be() -> None:
    weights = interpolation(LINEAR, 8, 16)
    assert weight_modes(weights + 0.7e-6)
    assert not weight_modes(weights + 1.4e-6)
    assert is_resampling(weights + 0.8e-5) and not is_resampling(weights + 2e-5)
    late = weights.copy()
    late[:, -1] *= 2
    assert not is_resampling(late)


@pytest.mark.parametrize(
    ("before", "after", "is_known"),
    [(8, 16, True), (8, 4, True), (4, 12, True), (12, 4, True), (2, 3, False), (1, 3, True),
     (10, 15, False), (3, 7, True), (7, 3, True), (224, 150, False)],
)  # fmt: skip
def test_modes_of_indices(before: int, after: int, is_known: bool) -> None:
    """Unknown where f32 does not tell on which side of the next element a coordinate is."""
    index = np.floor((np.arange(after) + 0.5) * before / after).astype(np.int64)
    assert index_modes(index, before) == ((NEAREST,) if is_known else ())
    other = index.copy()
    other[-1] -= 1
    assert not index_modes(other, before)


def test_webgpu_has_no_linear_resize_with_channels_last() -> None:
    """onnxruntime-web 1.30 gives wrong numbers there: `python -m tools.portability` found it."""
    image = np.ones((1, 4, 4, 3), np.float32)
    resized = partial(jax.image.resize, shape=(1, 8, 8, 3), method="linear")
    assert not hlo2onnx.translate(resized, image, target="ort-webgpu").report.nodes["Resize"]
    assert hlo2onnx.translate(resized, image).report.nodes["Resize"] == 1
