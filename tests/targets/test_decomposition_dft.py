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
from hlo2onnx.targets.decompositions.dft import decompose_dft
from hlo2onnx.targets.decompositions.dft_matmul import Transform, radices, roots, transformed

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


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 97, 1000, 4097])
def test_roots(length: int) -> None:
    powers = np.arange(-length, 2 * length)
    got = roots(length, powers)
    assert np.isin(got[4 * powers % length == 0], [1, 1j, -1, -1j]).all()
    wanted = np.exp(2j * np.pi * powers / length)
    np.testing.assert_allclose(got.astype(np.complex128), wanted, atol=1e-14)


@pytest.mark.parametrize("inner", [1, 3])
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


Build = Callable[[GraphBuilder, oir.Value], oir.Value]


def decomposed(build: Build, x: np.ndarray, opset: int = 23) -> tuple[np.ndarray, Counter[str]]:
    """What the graph gives when its DFTs, first ones first, are decomposed, and its operators."""
    model = model_of(build, {"x": x}, opset)
    builder = TargetBuilder(model.graph, opset, load_target("ort-cpu"))
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


@pytest.mark.parametrize(("opset", "inverse"), [(17, False), (18, True), (23, False)])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("length", [None, 1, 2, 5])
@pytest.mark.parametrize("axis", [0, 1])
def test_node(axis: int, length: int | None, parts: int, opset: int, inverse: bool) -> None:
    x = RNG.standard_normal((3, 4, parts))
    got, _ = decomposed(lambda b, x: b.dft(x, axis, length, inverse=inverse), x, opset)
    check(got, (np.fft.ifft if inverse else np.fft.fft)(complex_of(x), length, axis))


def test_a_symbolic_transformed_axis_is_left_alone() -> None:
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 23})
    b = TargetBuilder(graph, 23, load_target("ort-cpu"))
    node = b.dft(b.value("x", oir.DataType.FLOAT, (8, oir.SymbolicDim("n"), 2)), 1).producer()
    assert node is not None and decompose_dft(b, node) is None


@pytest.mark.parametrize("length", [None, 1, 2, 5, 6])
def test_one_sided(length: int | None) -> None:
    x = RNG.standard_normal((3, 4, 1))
    got, _ = decomposed(lambda b, x: b.dft(x, 1, length, onesided=True), x)
    check(got, np.fft.rfft(x[..., 0], length))
    z = RNG.standard_normal((3, 4, 2))
    got, _ = decomposed(lambda b, x: b.dft(x, 1, length, inverse=True, onesided=True), z)
    np.testing.assert_allclose(got[..., 0], np.fft.irfft(complex_of(z), length), atol=1e-13)


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1, 1)])
def test_a_transform_of_parts(order: tuple[int, int]) -> None:
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
