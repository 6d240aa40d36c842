"""What ONNX Runtime fuses on its own when it loads a model, where that would go wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import onnxruntime as ort
import pytest
from jax import lax
from rewriting import model_of

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.report import Report
from hlo2onnx.runtime.adapters.installed import KINDS, Name
from hlo2onnx.runtime.sessions import OrtProgram
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize import legalize
from tools.probe import fusions
from tools.probe.environments import start
from tools.probe.fusion_trials import TRIALS

PAGE = Path(hlo2onnx.__file__).parents[1] / "docs" / "runtime_fusions.md"
TABLE = Path(hlo2onnx.__file__).parent / "targets" / "tables" / "ort-cpu.json"
RNG = np.random.default_rng(0)
IMAGE = RNG.random((1, 4, 8, 8)).astype(np.float32) + 1
KERNEL = RNG.random((4, 4, 3, 3)).astype(np.float32) + 1
MATRIX = RNG.random((8, 4)).astype(np.float32) + 1
ROWS = RNG.random((3, 8)).astype(np.float32) + 1
LARGE = np.array([1.0, 2.0, 3e38, 1e38], np.float32)
TINY = np.float32(1e-20)
ONES = np.ones(4, np.float32)
Build = Callable[..., oir.Value]


def convolved(b: GraphBuilder, x: oir.Value, weights: np.ndarray = KERNEL) -> oir.Value:
    return b.Conv(x, b.const(weights), kernel_shape=list(weights.shape[2:]))


def beside(numbers: np.ndarray, shape: tuple[int, ...] = (4, 1, 1)) -> np.ndarray:
    return np.asarray(numbers, np.float32).reshape(shape)


def normalized(b: GraphBuilder, x: oir.Value, scale: np.ndarray, mean: np.ndarray) -> oir.Value:
    vectors = [b.const(np.asarray(v, np.float32)) for v in (scale, 0 * ONES, mean, ONES)]
    return b.BatchNormalization(x, *vectors, epsilon=0.0)


def channels_last(b: GraphBuilder, x: oir.Value) -> oir.Value:
    turned = b.transpose(convolved(b, x), (0, 2, 3, 1))
    return b.Neg(b.transpose(b.Mul(turned, b.const(LARGE)), (0, 3, 1, 2)))


OUT_OF_RANGE: dict[str, tuple[Build, np.ndarray]] = {
    "scaled channels": (lambda b, x: b.Neg(b.Mul(convolved(b, x), b.const(beside(LARGE)))),
                        IMAGE * TINY),
    "a batch axis": (
        lambda b, x: b.Neg(b.Mul(convolved(b, x), b.const(beside(LARGE, (1, 4, 1, 1))))),
        IMAGE * TINY),
    "one number": (lambda b, x: b.Neg(b.Mul(convolved(b, x), b.scalar_like(3e38, x))),
                   IMAGE * TINY),
    "an output": (lambda b, x: b.Mul(convolved(b, x), b.const(beside(LARGE))), IMAGE * TINY),
    "in one dimension": (
        lambda b, x: b.Neg(b.Mul(convolved(b, x, KERNEL[..., 0]), b.const(beside(LARGE, (4, 1))))),
        IMAGE[..., 0] * TINY),
    "between transposes": (channels_last, IMAGE * TINY),
    "underflow": (
        lambda b, x: b.Neg(b.Mul(convolved(b, x, KERNEL * TINY), b.const(beside(1e-25 * ONES)))),
        IMAGE * np.float32(1e30)),
    "biases": (lambda b, x: b.Neg(b.Add(
        b.Conv(x, b.const(-KERNEL), b.const(3e38 * ONES), kernel_shape=[3, 3]),
        b.const(beside(3e38 * ONES)))), IMAGE * np.float32(3.7e36)),
    "batch normalization": (lambda b, x: b.Neg(normalized(b, convolved(b, x), LARGE, 0 * ONES)),
                            IMAGE * TINY),
    "batch normalization of rows": (
        lambda b, x: b.Neg(normalized(b, b.MatMul(x, b.const(MATRIX)), LARGE, 0 * ONES)),
        ROWS * TINY),
    "a factor of a product": (
        lambda b, x: b.Neg(b.MatMul(b.Mul(x, b.scalar_like(1e-20, x)),
                                    b.const(MATRIX * np.float32(1e20)))),
        ROWS * np.float32(1e30)),
    "a divisor of a product": (
        lambda b, x: b.Neg(b.MatMul(b.Div(x, b.scalar_like(1e20, x)),
                                    b.const(MATRIX * np.float32(1e20)))),
        ROWS * np.float32(1e30)),
    "two factors": (
        lambda b, x: b.Neg(b.MatMul(b.Mul(x, b.scalar_like(1e-30, x)),
                                    b.transpose(b.Mul(x, b.scalar_like(1e-30, x)), (1, 0)))),
        ROWS * np.float32(1e30)),
    "two f64 factors": (
        lambda b, x: b.Neg(b.MatMul(b.Mul(x, b.scalar_like(2.0**100, x)),
                                    b.transpose(b.Mul(x, b.scalar_like(2.0**100, x)), (1, 0)))),
        ROWS.astype(np.float64)),
}  # fmt: skip


def quantized(b: GraphBuilder, x: oir.Value, op_type: str, weights: np.ndarray) -> oir.Value:
    """A product of dequantized tensors with a float bias, quantized and dequantized again."""
    scale, zero = b.const(np.float32(0.01)), b.const(np.uint8(100))
    stored = b.DequantizeLinear(b.QuantizeLinear(x, scale, zero), scale, zero)
    w = b.DequantizeLinear(b.const(np.round(weights).astype(np.int8)), scale, b.const(np.int8(0)))
    y = b.op(op_type, stored, w, b.const(np.array([1, -2, 1e6, 3e7], np.float32)))
    return b.DequantizeLinear(b.QuantizeLinear(y, scale, zero), scale, zero)  # type: ignore[no-any-return]


@pytest.mark.parametrize("op_type", ["Conv", "Gemm"])
def test_a_bias_that_32_bits_do_not_hold(op_type: str) -> None:
    x, weights = (IMAGE, KERNEL) if op_type == "Conv" else (ROWS, MATRIX)
    check(lambda b, x: quantized(b, x, op_type, weights), x, 0.011)


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_numbers_that_a_fusion_would_take_out_of_range(name: str) -> None:
    build, x = OUT_OF_RANGE[name]
    check(build, x, 1e-6)


def check(build: Build, x: np.ndarray, tolerance: float) -> oir.Model:
    """Compares what ORT gives, optimized, of the legalized model with the model as it was."""
    model = model_of(build, {"x": x})
    (right,) = OrtProgram(oir.to_proto(model).SerializeToString(), optimize=False)({"x": x})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    (got,) = OrtProgram(oir.to_proto(model).SerializeToString())({"x": x})
    np.testing.assert_allclose(got, right, rtol=tolerance)
    return model


ORDINARY: dict[str, Build] = {
    "scale": lambda b, x: b.Neg(b.Mul(convolved(b, x), b.const(beside(np.arange(4) - 1.5)))),
    "computed shift": lambda b, x: b.Neg(
        b.Add(b.Conv(x, b.const(KERNEL), b.const(ONES), kernel_shape=[3, 3]), convolved(b, x))
    ),
    "shift": lambda b, x: b.Neg(b.Add(convolved(b, x), b.const(beside(LARGE / 9)))),
    "batch normalization": lambda b, x: b.Neg(normalized(b, convolved(b, x), 3 * ONES, ONES)),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_convolutions_are_still_fused(name: str) -> None:
    model = model_of(ORDINARY[name], {"x": IMAGE})
    before = oir.to_proto(model).SerializeToString()
    legalize(model, load_target("ort-cpu"), "xla", Report())
    assert oir.to_proto(model).SerializeToString() == before


def test_the_standard_says_nothing_of_fusions() -> None:
    """And ORT makes them: otherwise there is nothing to keep it from."""
    build, x = OUT_OF_RANGE["scaled channels"]
    model = model_of(build, {"x": x})
    legalize(model, load_target("onnx"), "fast", Report())
    (got,) = OrtProgram(oir.to_proto(model).SerializeToString())({"x": x})
    assert not np.isfinite(got).all()


def conv(x: jax.Array, kernel: np.ndarray) -> jax.Array:
    return lax.conv_general_dilated(x, kernel.astype(x.dtype), (1, 1), "VALID")


IMAGES: dict[str, tuple[np.ndarray, bool]] = {
    "one weight": (np.ones((1, 1, 1, 1)), False),
    "any one weight": (np.full((1, 1, 1, 1), 0.7), False),
    "a box": (np.ones((2, 1, 3, 3)), True),
    "integers": (np.array([1.0, -3, 2, 1, 1, 5]).reshape(2, 3, 1, 1), True),
    "a power of two and zeros": (np.array([0.0, 0.5, 0, 1, 0, 0]).reshape(2, 3, 1, 1), False),
    "any weights": (np.random.default_rng(3).normal(size=(4, 3, 1, 1)), False),
    "8-bit weights": (np.round(np.random.default_rng(3).normal(size=(4, 3, 1, 1)) * 64) / 64, True),
}


@pytest.mark.costly
@pytest.mark.parametrize("order", ["centred first", "scaled first", "batch normalization"])
@pytest.mark.parametrize("name", IMAGES)
def test_images_whose_mean_is_much_larger_than_their_spread(name: str, order: str) -> None:
    kernel, whole = IMAGES[name]
    noise = np.random.default_rng(0).normal(size=(1, kernel.shape[1], 16, 16))
    x = (255 + (np.round(9 * noise) if whole else 0.1 * noise)).astype(np.float32)
    with jax.enable_x64(True):
        sums = np.asarray(conv(jnp.asarray(x, jnp.float64), kernel.astype(np.float32)))
    mean = sums.mean((0, 2, 3), keepdims=True).astype(np.float32)[0]
    scale = (1 / sums.std((0, 2, 3), keepdims=True)).astype(np.float32)[0]
    shift = (mean * scale).astype(np.float32)

    def normalize(x: jax.Array) -> jax.Array:
        y = conv(x, kernel.astype(np.float32))
        if order == "centred first":
            return (y - mean) * scale
        return y * scale - shift if order == "scaled first" else (y - mean) * scale + scale

    wide = [v.astype(np.float64) for v in (mean, scale, shift)]
    right = (sums - wide[0]) * wide[1] + (wide[1] if order == "batch normalization" else 0)
    if order == "scaled first":
        right = sums * wide[1] - wide[2]
    got = np.asarray(hlo2onnx.translate(jax.jit(normalize).lower(x))(x))
    with jax.disable_jit():  # XLA would contract products and sums, which runtimes cannot
        separate = np.asarray(normalize(jnp.asarray(x)))
    ours, theirs = (np.abs(y - right).max() / np.abs(right).max() for y in (got, separate))
    assert ours <= max(3 * theirs, 5e-7), (ours, theirs)


@pytest.mark.wide
def test_the_table_names_what_the_runtime_fuses_wrongly() -> None:
    """How the numbers are wrong depends on the processor: a bias beyond 2^31 wraps or saturates."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    with start(Name("ort-cpu")) as runtime:
        found = fusions.harmful_fusions(runtime, KINDS["ort-cpu"]).keys()
    if ort.__version__ == table["runtime_version"]:
        assert found == table["harmful_fusions"].keys()
    assert found <= table["harmful_fusions"].keys()
    assert load_target("ort-cpu").harmful_fusions == table["harmful_fusions"].keys()


def test_the_page_lists_every_fusion() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    assert {trial.fusion for trial in TRIALS} <= {row[0] for row in rows}
    harmful = {row[0] for row in rows[2:] if not row[2].startswith(("same numbers", "not made"))}
    assert harmful == load_target("ort-cpu").harmful_fusions


@pytest.mark.parametrize("exact", [False, True])
def test_computed_statistics_of_a_convolution_that_may_be_exact(exact: bool) -> None:
    weights = KERNEL * 0 + 1 if exact else KERNEL

    def normalize(
        x: jax.Array, m: jax.Array, v: jax.Array, s: jax.Array, b: jax.Array
    ) -> jax.Array:
        m, v, s, b = (p[:, None, None] for p in (m, v, s, b))
        return (conv(x, weights) - m) * (lax.rsqrt(v + 1e-5) * s) + b

    program = hlo2onnx.translate(jax.jit(normalize).lower(IMAGE, ONES, ONES, ONES, ONES))
    assert program.report.nodes["BatchNormalization"] == (not exact)
