"""Fourier transforms of every kind, rank and length, against numpy in long double and XLA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import Run, against_xla
from jax.scipy import fft as jax_fft
from mlir_text import tensor

import hlo2onnx

pytestmark = pytest.mark.wide

KINDS = ["FFT", "IFFT", "RFFT", "IRFFT"]
ELEMENTS = {"f32": np.float32, "f64": np.float64}
LENGTHS = [1, 2, 3, 7, 12, 64, 97, 257, 360, 514, 1000, 1024, 4097]
"""Primes below and above the largest matrix, powers, products of one and several stages."""


def text(kind: str, batch: Sequence[int], lengths: Sequence[int], element: str) -> str:
    half = [*lengths[:-1], lengths[-1] // 2 + 1] if lengths[-1] else lengths
    inputs, outputs = (half if kind == "IRFFT" else lengths), (half if kind == "RFFT" else lengths)
    operand = tensor([*batch, *inputs], element if kind == "RFFT" else f"complex<{element}>")
    result = tensor([*batch, *outputs], element if kind == "IRFFT" else f"complex<{element}>")
    return f"""
module {{ func.func public @main(%arg0: {operand}) -> {result} {{
  %0 = stablehlo.fft %arg0, type = {kind}, length = {list(lengths)} : ({operand}) -> {result}
  return %0 : {result}
}} }}"""


def exact(kind: str, x: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """The transform of the last axes in long double."""
    wide = x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)
    axes = tuple(range(-len(lengths), 0))
    if kind == "IRFFT":
        return np.fft.irfftn(wide, lengths, axes)
    functions = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn}
    return functions[kind](wide, axes=axes)


def check(run: Run, kind: str, lengths: Sequence[int]) -> Run:
    """Asserts 4 units of the type's precision, relative to the norm of the result; XLA has 3."""
    truth = exact(kind, run.inputs[0], lengths)
    for (got,) in run.actual:
        (want,) = run.expected
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        error = np.linalg.norm((got - truth).reshape(-1))
        assert error <= 4 * np.finfo(got.dtype).eps * np.linalg.norm(truth.reshape(-1))
    return run


@pytest.mark.parametrize("kind", KINDS)
def test_one_point_is_its_own_transform(kind: str) -> None:
    x = np.array([np.inf, 1, np.nan, -np.inf, -0.0], np.float32).reshape(-1, 1)
    x = x if kind == "RFFT" else x.astype(np.complex64)
    against_xla(text(kind, [5], [1], "f32"), x).bit_exact()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_lengths(kind: str, element: str, length: int) -> None:
    run = against_xla(text(kind, [3], [length], element))
    check(run, kind, [length]).has_no("DFT")
    run.close()


@pytest.mark.parametrize("lengths", [[4, 6], [5, 1], [1, 5], [17, 33], [3, 4, 5], [2, 1, 7]])
@pytest.mark.parametrize("batch", [[], [2], [2, 3]])
@pytest.mark.parametrize("kind", KINDS)
def test_ranks(kind: str, batch: list[int], lengths: list[int]) -> None:
    for element in ELEMENTS:
        check(against_xla(text(kind, batch, lengths, element)), kind, lengths)


@pytest.mark.parametrize(
    ("batch", "lengths"), [([0], [4]), ([3], [0]), ([0], [0, 3]), ([2], [3, 0])]
)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing(kind: str, batch: list[int], lengths: list[int]) -> None:
    against_xla(text(kind, batch, lengths, "f32")).bit_exact()


@pytest.mark.parametrize("length", [1, 2, 4, 5, 8, 300, 514, 515])
def test_imaginary_parts_of_real_elements_are_not_read(length: int) -> None:
    """Of the first and, where the length is even, of the last element."""
    x = np.random.default_rng(0).standard_normal((2, length // 2 + 1)).astype(np.complex64)
    x.imag[:, 0] = np.nan
    if length % 2 == 0:
        x.imag[:, -1] = np.inf
    run = against_xla(text("IRFFT", [2], [length], "f32"), x)
    run.close()
    assert np.isfinite(run.actual[0][0]).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [17, 18, 19, 20])
def test_opsets(opset: int, kind: str) -> None:
    check(against_xla(text(kind, [2], [6, 10], "f32"), opset=opset), kind, [6, 10])


# -- the graph -----------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [19, 23])
@pytest.mark.parametrize("kind", KINDS)
def test_the_standard_has_an_operator(kind: str, opset: int) -> None:
    program = hlo2onnx.translate(text(kind, [2], [6, 10], "f32"), target="onnx", opset=opset)
    assert program.report.nodes["DFT"] == 2
    assert program.report.nodes["MatMul"] == 0
    x = against_xla(text(kind, [2], [6, 10], "f32")).inputs[0]
    # The runtime's kernel: a thousand times our error.
    np.testing.assert_allclose(program(x), exact(kind, x, [6, 10]), atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "length", "stages"),
    [("FFT", 64, 1), ("RFFT", 64, 1), ("IRFFT", 64, 1), ("FFT", 1024, 2), ("FFT", 32768, 3)],
)
def test_one_product_a_stage(kind: str, length: int, stages: int) -> None:
    program = hlo2onnx.translate(text(kind, [2], [length], "f32"))
    assert program.report.nodes["MatMul"] == stages
    assert program.report.nodes["Mul"] == 2 * (stages - 1) + (kind == "IRFFT")


def test_a_large_prime_is_a_convolution() -> None:
    program = hlo2onnx.translate(text("FFT", [2], [257], "f32"))
    assert program.report.nodes["MatMul"] == 4
    assert sum(v.nbytes for v in constants(program)) < 100_000


def constants(program: hlo2onnx.OnnxProgram) -> list[np.ndarray]:
    return [v.const_value.numpy() for v in program.model.graph.initializers.values()]


def test_between_transforms_numbers_stay_in_parts() -> None:
    """Only the model's own inputs and outputs have a last axis of 2."""
    run = against_xla(text("FFT", [2], [6, 10, 4], "f32"))
    assert run.nodes["Gather"] == 2
    assert [node.op_type for node in run.program.model.graph][-1] == "Concat"


# -- what JAX makes of it --------------------------------------------------------------------------


def draw(*shape: int, kind: str = "f") -> np.ndarray:
    rng = np.random.default_rng(0)
    real = rng.standard_normal(shape)
    return real if kind == "f" else real + 1j * rng.standard_normal(shape)


LINE, SHORT, IMAGE = draw(300), draw(41), draw(24, 31)
SPECTRUM, CUBE = draw(151, kind="c"), draw(2, 3, 4, 5, kind="c")

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "fft of real": (jnp.fft.fft, (LINE,)),
    "fft along the first axis": (lambda x: jnp.fft.fft(x, axis=0), (IMAGE,)),
    "fft padded": (lambda x: jnp.fft.fft(x, n=512), (LINE,)),
    "rfft cropped": (lambda x: jnp.fft.rfft(x, n=200), (LINE,)),
    "irfft odd": (lambda x: jnp.fft.irfft(x, n=301), (SPECTRUM,)),
    "irfft padded": (lambda x: jnp.fft.irfft(x, n=400), (SPECTRUM,)),
    "ortho": (lambda x: jnp.fft.ifft(x, norm="ortho"), (SPECTRUM,)),
    "forward": (lambda x: jnp.fft.fft2(x, norm="forward"), (CUBE,)),
    "hfft": (jnp.fft.hfft, (SPECTRUM,)),
    "ihfft": (jnp.fft.ihfft, (LINE,)),
    "fft2": (jnp.fft.fft2, (IMAGE,)),
    "ifftn of rank 4": (jnp.fft.ifftn, (CUBE,)),
    "rfftn": (lambda x: jnp.fft.rfftn(x), (IMAGE,)),
    "irfft2": (jnp.fft.irfft2, (CUBE,)),
    "irfftn of rank 4": (jnp.fft.irfftn, (CUBE,)),
    "shifted": (lambda x: jnp.fft.ifftshift(jnp.fft.fftshift(jnp.fft.fft(x))), (LINE,)),
    "batched": (jax.vmap(jnp.fft.ifft), (CUBE,)),
    "gradient": (jax.grad(lambda x: jnp.sum(jnp.cos(jnp.fft.rfft(x).imag))), (SHORT,)),
    "dct": (jax_fft.dct, (LINE,)),
    "idctn": (jax_fft.idctn, (IMAGE,)),
}  # fmt: skip


@pytest.mark.parametrize("wide", [False, True], ids=["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, wide: bool) -> None:
    function, arrays = FUNCTIONS[name]
    narrow = {"f": np.float32, "c": np.complex64}
    with jax.enable_x64(wide):
        given = [x if wide else x.astype(narrow[x.dtype.kind]) for x in arrays]
        program = hlo2onnx.translate(jax.jit(function).lower(*given))
        verification = program.verify(*given)
    assert verification.ok, f"{verification}"
