"""DFT spelled with MatMul: the numbers it is made of, and nodes of every form."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of

from hlo2onnx.runtime.sessions import OrtProgram
from hlo2onnx.targets import load_target
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.decompositions import dft
from hlo2onnx.targets.decompositions.dft import decompose_dft
from hlo2onnx.targets.decompositions.dft_factors import (
    LARGEST_MATRIX,
    chirp,
    chirp_spectrum,
    convolution_length,
    radices,
    roots,
)
from hlo2onnx.targets.decompositions.dft_matmul import Transform, transformed

pytestmark = pytest.mark.wide

COSTS = load_target("ort-cpu").costs


def run(model: oir.Model, x: np.ndarray) -> np.ndarray:
    return OrtProgram(oir.to_proto(model).SerializeToString(), optimize=False)({"x": x})[0]


def test_radices() -> None:
    for length in [*range(1, 600), 4097, 65536, 1 << 20, 65537, 9973 * 4]:
        factors = radices(length, COSTS)
        assert math.prod(factors) == length
        assert list(factors) == sorted(factors, reverse=True)
        for factor in factors:
            is_prime = all(factor % divisor for divisor in range(2, math.isqrt(factor) + 1))
            assert factor <= LARGEST_MATRIX or is_prime


@pytest.mark.parametrize("least", [1, 2, 17, 513, 1018, 8193, 100_001])
def test_convolution_length(least: int) -> None:
    length = convolution_length(least, COSTS)
    assert least <= length < 2 * least or least == length
    assert max(radices(length, COSTS)) <= LARGEST_MATRIX


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 97, 1000, 4097])
def test_roots(length: int) -> None:
    powers = np.arange(-length, 2 * length)
    got = roots(length, powers)
    quarters = 4 * powers % length == 0
    assert np.isin(got[quarters], [1, 1j, -1, -1j]).all()
    with np.errstate(all="ignore"):
        wanted = np.exp(2j * np.pi * powers / length)
    np.testing.assert_allclose(got.astype(np.complex128), wanted, atol=1e-14)
    np.testing.assert_array_equal(got[:length], got[length : 2 * length])


def test_a_chirp_turns_a_transform_into_a_convolution() -> None:
    length, outputs = 11, 7
    x = np.arange(1, 12) * (1 + 2j)
    spectrum = chirp_spectrum(length, length, outputs, -1, 20)
    made = np.fft.ifft(np.fft.fft(x * chirp(length, length, -1), 20) * spectrum)
    got = made[:outputs] * chirp(length, outputs, -1)
    np.testing.assert_allclose(got.astype(complex), np.fft.fft(x)[:outputs], atol=1e-12)


@pytest.mark.parametrize("inner", [1, 5])
@pytest.mark.parametrize("parts_in", [1, 2])
@pytest.mark.parametrize("parts_out", [1, 2])
@pytest.mark.parametrize(
    ("length", "inputs", "outputs"),
    [(8, 8, 8), (8, 3, 5), (300, 300, 300), (300, 151, 300), (300, 300, 151), (300, 7, 9),
     (263, 263, 263), (263, 132, 132), (526, 264, 1), (1, 1, 1)],
)  # fmt: skip
def test_transform(
    length: int, inputs: int, outputs: int, parts_out: int, parts_in: int, inner: int
) -> None:
    x = np.random.default_rng(0).standard_normal((2, parts_in, inputs, inner))
    transform = Transform(length, 1, inputs, outputs, parts_in, parts_out, 0.5)
    got = run(model_of(lambda b, x: transformed(b, x, transform), {"x": x}), x)
    z = x[:, 0] + (1j * x[:, 1] if parts_in == 2 else 0)
    wanted = np.fft.ifft(z, length, axis=1)[:, :outputs] * length * 0.5
    wanted = np.stack([wanted.real, wanted.imag], 1)[:, :parts_out]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, atol=1e-13 * length)


def _decomposed(b: TargetBuilder, y: oir.Value) -> oir.Value | None:
    node = y.producer()
    assert node is not None
    return decompose_dft(b, node)


@pytest.mark.parametrize("opset", [17, 18, 23])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("length", [None, 4, 6, 9])
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
def test_node(parts: int, inverse: bool, length: int | None, axis: int, opset: int) -> None:
    """Longer inputs are cropped, shorter ones padded."""
    x = np.random.default_rng(0).standard_normal((6, 6, 6, parts))

    def build(b: TargetBuilder, x: oir.Value) -> oir.Value:
        made = _decomposed(b, b.dft(x, axis, length, inverse=inverse))
        assert made is not None
        return made

    got = run(model_of(build, {"x": x}, opset), x)
    z = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
    wanted = (np.fft.ifft if inverse else np.fft.fft)(z, length, axis)
    np.testing.assert_allclose(got, np.stack([wanted.real, wanted.imag], -1), atol=1e-13)


@pytest.mark.parametrize("length", [None, 1, 2, 7, 8, 12])
def test_one_sided_nodes(length: int | None) -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 1))
    got = run(
        model_of(lambda b, x: _decomposed(b, b.dft(x, 1, length, onesided=True)), {"x": x}), x
    )
    wanted = np.fft.rfft(x[..., 0], length)
    np.testing.assert_allclose(got, np.stack([wanted.real, wanted.imag], -1), atol=1e-13)
    z = np.concatenate([x, x[::-1]], -1)
    got = run(
        model_of(
            lambda b, x: _decomposed(b, b.dft(x, 1, length, inverse=True, onesided=True)), {"x": z}
        ),
        z,
    )
    wanted = np.fft.irfft(z[..., 0] + 1j * z[..., 1], length)
    np.testing.assert_allclose(got[..., 0], wanted, atol=1e-13)


def test_a_symbolic_transformed_axis_is_left_alone() -> None:
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 23})
    b = TargetBuilder(graph, 23, load_target("ort-cpu"))
    x = b.value("x", oir.DataType.FLOAT, (8, oir.SymbolicDim("n"), 2))
    assert _decomposed(b, b.dft(x, 1)) is None
    assert dft._without_last_axis(x) is None
