"""DFT spelled with MatMul, in small: factors of lengths, single stages, and parts handed on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of, run_model

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import remove_unused
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.targets import load_target
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.decompositions import dft_factors
from hlo2onnx.targets.decompositions.dft import decompose_dft
from hlo2onnx.targets.decompositions.dft_factors import convolution_length, radices
from hlo2onnx.targets.decompositions.dft_matmul import MERGED_COLUMNS, Transform, transformed

RNG = np.random.default_rng(0)
COSTS = load_target("ort-cpu").costs


@pytest.mark.parametrize(
    ("length", "factors"),
    [
        (1, (1,)),
        (2, (2,)),
        (64, (64,)),
        (65, (65,)),
        (127, (127,)),
        (128, (128,)),
        (256, (16, 16)),
        (251, (251,)),
        (257, (257,)),
        (514, (257, 2)),
        (257 * 263, (263, 257)),
        (257 * 128, (257, 128)),
        (120, (120,)),
        (512, (32, 16)),
        (4096, (64, 64)),
        (1 << 18, (64, 64, 64)),
    ],
)
def test_radices(length: int, factors: tuple[int, ...]) -> None:
    assert radices(length, COSTS) == factors


def test_factors_of_numbers() -> None:
    assert [list(dft_factors._primes(n)) for n in (1, 2, 4, 9, 12, 97, 360)] == [
        [], [2], [2, 2], [3, 3], [2, 2, 3], [97], [2, 2, 2, 3, 3, 5],
    ]  # fmt: skip


@pytest.mark.parametrize("least", [1, 2, 3, 7, 17, 100, 513])
def test_convolution_length(least: int) -> None:
    """The cheapest of all lengths that 2, 3 and 5 make."""
    allowed = [n for n in range(least, 2 * least) if max(dft_factors._primes(n), default=1) <= 5]
    costs = {n: (n * dft_factors._cheapest(n, COSTS.dft_stage)[0], n) for n in allowed}
    assert convolution_length(least, COSTS) == min(allowed, key=costs.__getitem__)


@pytest.mark.parametrize("inner", [1, 3, MERGED_COLUMNS])
@pytest.mark.parametrize(("parts_in", "parts_out"), [(1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize(
    ("length", "inputs", "outputs"),
    [(4, 4, 4), (5, 3, 2), (300, 300, 300), (300, 7, 9), (300, 299, 2), (263, 263, 263),
     (263, 3, 2)],
)  # fmt: skip
def test_transform(
    length: int, inputs: int, outputs: int, parts_in: int, parts_out: int, inner: int
) -> None:
    x = RNG.standard_normal((2, parts_in, inputs, inner))
    transform = Transform(length, -1, inputs, outputs, parts_in, parts_out, 0.5)
    (got,) = run_model(model_of(lambda b, x: transformed(b, x, transform), {"x": x}), {"x": x})
    z = x[:, 0] + (1j * x[:, 1] if parts_in == 2 else 0)
    wanted = np.fft.fft(z, length, axis=1)[:, :outputs] * 0.5
    wanted = np.stack([wanted.real, wanted.imag], 1)[:, :parts_out]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, atol=1e-13 * length)


def test_rows_are_transposed_by_the_second_product() -> None:
    """The last two axes, with nothing in between: a runtime fuses them into one operator."""
    x = RNG.standard_normal((8, 1, 512, 1))
    transform = Transform(512, -1, 512, 257, parts_in=1)
    model = model_of(lambda b, x: transformed(b, x, transform), {"x": x})
    (transpose,) = (node for node in model.graph if node.op_type == "Transpose")
    assert transpose.attributes["perm"].as_ints() == (0, 2, 1)
    assert [reader.op_type for reader in transpose.outputs[0].consumers()] == ["MatMul"]


Build = Callable[[GraphBuilder, oir.Value], oir.Value]


def decomposed(build: Build, x: np.ndarray, free: bool = False) -> tuple[np.ndarray, Counter[str]]:
    """What the graph gives when its DFTs, first ones first, are decomposed, and its operators."""
    dims = {"x": (oir.SymbolicDim("n"), *x.shape[1:])} if free else None
    model = model_of(build, {"x": x}, dims=dims)
    builder = TargetBuilder(model.graph, 23, load_target("ort-cpu"))
    builder.adopt(model.graph)
    for node in [n for n in all_nodes(model.graph) if n.op_type == "DFT"]:
        with builder.before(node):
            made = decompose_dft(builder, node)
        assert made is not None
        node.outputs[0].replace_all_uses_with(made, replace_graph_outputs=True)
    remove_unused(model.graph)
    return run_model(model, {"x": x})[0], Counter(n.op_type for n in model.graph)


def complex_of(x: np.ndarray) -> np.ndarray:
    return x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)


def check(got: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(got, np.stack([wanted.real, wanted.imag], -1), atol=1e-13)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("length", [None, 1, 2, 5])
@pytest.mark.parametrize("axis", [0, 1])
def test_node(axis: int, length: int | None, parts: int) -> None:
    x = RNG.standard_normal((3, 4, parts))
    got, _ = decomposed(lambda b, x: b.dft(x, axis, length), x)
    check(got, np.fft.fft(complex_of(x), length, axis))


@pytest.mark.parametrize("length", [None, 1, 2, 5, 6])
def test_one_sided(length: int | None) -> None:
    x = RNG.standard_normal((3, 4, 1))
    got, _ = decomposed(lambda b, x: b.dft(x, 1, length, onesided=True), x)
    check(got, np.fft.rfft(x[..., 0], length))
    z = RNG.standard_normal((3, 4, 2))
    got, _ = decomposed(lambda b, x: b.dft(x, 1, length, inverse=True, onesided=True), z)
    np.testing.assert_allclose(got[..., 0], np.fft.irfft(complex_of(z), length), atol=1e-13)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("axes", [(1, 2), (2, 1), (1, 1)])
def test_a_transform_of_a_transform(axes: tuple[int, int], free: bool) -> None:
    """The parts of the first are not joined and taken apart again."""
    x = RNG.standard_normal((3, 4, 5, 2))

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.dft(x, axes[0])
        real, imag = (b.Gather(y, b.i64(index), axis=3) for index in (0, 1))
        joined = b.concat([b.unsqueeze(part, [3]) for part in (real, imag)], 3)
        return b.dft(joined, axes[1])

    got, nodes = decomposed(build, x, free)
    z = np.fft.fft(complex_of(x), axis=axes[0])
    check(got, np.fft.fft(z, axis=axes[1]))
    assert (nodes["Gather"], nodes["Concat"]) == (2, 2)


def test_parts_of_two_transforms() -> None:
    """The real part of one and the imaginary part of the other are no transform."""
    x = RNG.standard_normal((3, 4, 5, 2))

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        one, other = b.dft(x, 1), b.dft(b.Mul(x, x), 1)
        real = b.unsqueeze(b.Gather(one, b.i64(0), axis=3), [3])
        imag = b.unsqueeze(b.Gather(other, b.i64(1), axis=3), [3])
        return b.dft(b.concat([real, imag], 3), 1)

    one, other = (np.fft.fft(complex_of(z), axis=1) for z in (x, x * x))
    check(decomposed(build, x)[0], np.fft.fft(one.real + 1j * other.imag, axis=1))


@pytest.mark.parametrize("order", [(1, 0), (1, 1), (0, 0)])
def test_parts_in_another_order(order: tuple[int, int]) -> None:
    x = RNG.standard_normal((3, 4, 2))

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.dft(x, 1)
        parts = [b.unsqueeze(b.Gather(y, b.i64(index), axis=2), [2]) for index in order]
        return b.dft(b.concat(parts, 2), 1)

    y = np.fft.fft(complex_of(x), axis=1)
    real, imag = ([y.real, y.imag][index] for index in order)
    check(decomposed(build, x)[0], np.fft.fft(real + 1j * imag, axis=1))


@pytest.mark.parametrize(
    ("make", "sign"),
    [
        (lambda b, x: b.Neg(b.slice(x, [1], [2], axes=[1])), -1),
        (lambda b, x: b.slice(x, [1], [2], axes=[1]), 1),
        (lambda b, x: b.reshape(b.slice(x, [1], [2], axes=[1]), (4, 1)), 1),
        (lambda b, x: b.transpose(b.unsqueeze(b.Gather(x, b.i64(1), axis=1), [0]), (1, 0)), 1),
        (lambda b, x: b.unsqueeze(b.Gather(x, b.i64(1), axis=1), [1]), 1),
    ],
)
def test_real_numbers_with_an_axis_of_their_own(make: Build, sign: int) -> None:
    x = RNG.standard_normal((4, 2))
    got, _ = decomposed(lambda b, x: b.dft(make(b, x), 0), x)
    check(got, np.fft.fft(sign * x[:, 1]))


def test_parts_are_handed_out() -> None:
    """Who takes out a part reads it; other readers, and other axes, read the whole."""
    x = RNG.standard_normal((4, 4, 2))

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.dft(x, 1)
        result: oir.Value = b.Sub(b.Gather(y, b.i64(0), axis=2), b.Gather(y, b.i64(1), axis=2))
        return result

    got, nodes = decomposed(build, x)
    y = np.fft.fft(complex_of(x))
    np.testing.assert_allclose(got, y.real - y.imag, atol=1e-13)
    assert (nodes["Gather"], nodes["Concat"]) == (2, 1)

    def rows(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.dft(x, 1)
        result: oir.Value = b.Add(b.Gather(y, b.i64(1), axis=0), b.Gather(y, b.i64([1]), axis=2))
        return result

    got, _ = decomposed(rows, x)
    whole = np.stack([y.real, y.imag], -1)
    np.testing.assert_allclose(got, whole[1] + whole[..., 1:], atol=1e-13)


@pytest.mark.parametrize(
    ("length", "inner", "products", "additions"),
    [
        (300, MERGED_COLUMNS, 2, 0),
        (300, MERGED_COLUMNS - 1, 2, 1),
        (64 * 64, MERGED_COLUMNS, 2, 1),
        (64, MERGED_COLUMNS, 1, 0),
    ],
    ids=["merged", "few columns", "large matrices", "one stage"],
)
def test_roots_of_unity_are_part_of_the_second_matrices(
    length: int, inner: int, products: int, additions: int
) -> None:
    x = RNG.standard_normal((1, 2, length, inner)).astype(np.float32)
    transform = Transform(length, -1, length, length)
    model = model_of(lambda b, x: transformed(b, x, transform), {"x": x})
    nodes = Counter(node.op_type for node in all_nodes(model.graph))
    assert (nodes["MatMul"], nodes["Add"]) == (products, additions)
