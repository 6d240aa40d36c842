"""Products and Transposes that the rules must leave where they are."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, graph, rewrites
from rewriting import Rewrite
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Refusal, Rewriter
from hlo2onnx.raising.rules.nn.matmul import Gemm, MatvecToVecmat, VectorMatMul
from hlo2onnx.raising.rules.shapes.transpose import SinkTranspose, splits

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 7
Y = np.arange(48, dtype=np.float32).reshape(2, 4, 6) % 5
INPUTS = {"x": X, "y": Y}
LAST = (0, 2, 1)


def turned(b: GraphBuilder, x: oir.Value, perm: tuple[int, ...] = LAST) -> oir.Value:
    return b.Transpose(x, perm=perm)


CONSTANTS = {
    "turned": turned,
    "UNITS": np.ones((1, 1, 4, 3), np.float32),
    "COLUMN": np.arange(4, dtype=np.float32).reshape(4, 1),
}


@pytest.mark.parametrize(
    ("old", "new", "groups"),
    [
        ((2, 6), (2, 3, 2), [[0], [1, 2]]),
        ((6, 1), (2, 3, 1), [[0, 1], [2]]),
        ((1, 4), (1, 4), [[0], [1]]),
        ((4,), (1, 4), [[0, 1]]),
        ((2, 6), (12,), None),
        ((6,), (2, 3, 1), None),
        ((4, 3), (2, 3, 2), None),
        ((2, 3), (2,), None),
    ],
)
def test_splits(old: tuple[int, ...], new: tuple[int, ...], groups: list[list[int]] | None) -> None:
    if groups is None:
        with pytest.raises(Refusal):
            splits(old, new)
    else:
        assert splits(old, new) == groups


# -- Transposes that stay, and others ----------------------------

MOVES: dict[str, str] = {
    "turned(x) + COLUMN": "Add Transpose Reshape Reshape",
    "turned(x) + ReduceMax(x, [0, 2], keepdims=0)": "Add Transpose ReduceMax Reshape Reshape",
    "turned(x) + ReduceMax(x, keepdims=0)": "Add Transpose ReduceMax",
    "reshape(turned(x), (2, 2, 2, 3))": "Reshape Transpose",
    "Abs(turned(x) + UNITS)": NOTHING,
    "Concat(turned(x), reshape(Neg(x), (2, 4, 3)), axis=0)": NOTHING,
    "reshape(turned(x), (2, 1, 4, 3))": NOTHING,
    "(t := turned(x), Neg(t))": NOTHING,
}


@pytest.mark.parametrize("text", MOVES)
def test_transposes_that_move_on(text: str) -> None:
    rewrites(text, MOVES[text], {"x": X}, SinkTranspose(), constants=CONSTANTS)


@pytest.mark.parametrize("named", [True, False])
def test_slices_along_axes_that_are_not_known(named: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        bounds, axes = [b.i64([0]), b.i64([1])], [b.Abs(b.i64([1]))] if named else []
        types = [(x.dtype, (2, 1, 3) if named else (1, 4, 3))]
        return b.op("Slice", turned(b, x), *bounds, *axes, types=types)

    Rewrite(build, {"x": X}, SinkTranspose()).nothing()


NORMS: dict[str, bool] = {
    "t - ReduceMean(t, [2], keepdims=1)": False,
    "t - ReduceSum(t, [-1], keepdims=1) / 3": False,
    "t * (ReduceMean(t * t, [2], keepdims=1) + 1)": False,
    "t - ReduceSum(t, [2], keepdims=1)": True,
    "t - ReduceMax(t, [2], keepdims=1)": True,
    "t - ReduceMean(t, [1], keepdims=1)": True,
    "t - ReduceMean(t, [1, 2], keepdims=1)": True,
    "t - ReduceMean(t, keepdims=1)": True,
    "t - Sin(ReduceMean(t, [2], keepdims=1))": True,
    "t * (ReduceMean(t * Abs(t), [2], keepdims=1) + 1)": True,
}


@pytest.mark.parametrize("text", NORMS)
def test_what_begins_a_normalization(text: str) -> None:
    """A Transpose that brings the axis to the end stays in front of it."""
    for perm, fires in ((LAST, NORMS[text]), ((1, 0, 2), True)):
        build = graph(f"(t := turned(x, {perm}), {text})[1:]", turned=turned)
        assert bool(Rewrite(build, {"x": X}, SinkTranspose(), tolerance=1e-6).fired) == fires


# -- vectors, biases and sums of products ----------------------------

ROW, MATRIX = X[0], Y[0]
VECTORS: dict[str, str] = {
    "MatMul(ROW, reshape(ReduceMax(w, [1], keepdims=0), (4, 1)))":
        "MatMul ReduceMax Reshape Reshape Reshape Transpose",
    # Biases that are computed, of another shape, or of no product.
    "MatMul(x, w) + ReduceMax(w, [0], keepdims=1)": NOTHING,
    "x + x + FIRST": NOTHING,
    "x + FIRST": NOTHING,
    "MatMul(x, w) + CUBE": NOTHING,
    "MatMul(x, w) + SQUARE": NOTHING,
    "MatMul(x, w) + WIDE": NOTHING,
    # Columns of a row, of a batch, and several.
    "MatMul(FIRST, reshape(ReduceMax(w, [1]), (4, 1)))": NOTHING,
    "MatMul(ROW, ReduceMax(w, [1], keepdims=1))": NOTHING,
    "MatMul(XS, reshape(slice(w, [0], [2], axes=[1]), (2, 4, 1)))": NOTHING,
    "MatMul(ROW, reshape(Transpose(w, perm=(1, 0)), (4, 6)))": NOTHING,
    # A vector that was a matrix, a row read in another shape, and no product.
    "reshape(MatMul(reshape(x, (1, 12)), TWO), (2,))": NOTHING,
    "reshape(MatMul(unsqueeze(ReduceMax(x, [0], keepdims=0), [0]), w), (2, 3))": NOTHING,
    "reshape(x + x, (12,))": NOTHING,
    "Neg(reshape(x, (12,)))": NOTHING,
}  # fmt: skip
OPERANDS = {
    "ROW": ROW, "FIRST": ROW[:1], "CUBE": MATRIX[None, :1], "SQUARE": MATRIX[:3],
    "WIDE": MATRIX[:1], "XS": X, "TWO": np.ones((12, 2), np.float32),
}  # fmt: skip


@pytest.mark.parametrize("text", VECTORS)
def test_vectors_and_biases(text: str) -> None:
    inputs = {"x": ROW, "w": MATRIX}
    rewrites(text, VECTORS[text], inputs, MatvecToVecmat(), VectorMatMul(), constants=OPERANDS)


def test_a_batch_of_vectors_stays() -> None:
    text = "reshape(MatMul(reshape(v, (1, 4)), w), (2, 6))"
    rewrites(text, NOTHING, {"v": X[0, 0], "w": Y}, VectorMatMul())


def test_gemms_of_targets_and_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, bias = {"x": ROW, "w": MATRIX}, {"BIAS": MATRIX[0]}

    def of_free(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return b.Add(b.MatMul(free(b, x, 3, "k"), free(b, w, "k", 6)), b.const(MATRIX[0]))

    Rewrite(of_free, inputs, Gemm()).nothing()
    rewrites("MatMul(x, w) + MatMul(Neg(x), w)", "Neg MatMul Gemm", inputs, Gemm())
    rewrites("MatMul(x, w) + BIAS", "Gemm", inputs, Gemm(), constants=bias)
    monkeypatch.setattr(Rewriter, "supports", lambda *_: False)
    rewrites("MatMul(x, w) + BIAS", NOTHING, inputs, Gemm(), constants=bias)


def test_a_transpose_that_both_read() -> None:
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    text = "(t := Transpose(x, perm=(1, 0)), MatMul(t, t) + x)[1:]"
    rewrites(text, "Transpose Gemm", {"x": square}, Gemm())


def test_a_vector_times_a_batch_is_no_gemm() -> None:
    """The product is a matrix, its operands are none."""

    def build(b: GraphBuilder, v: oir.Value, w: oir.Value) -> oir.Value:
        types = [(v.dtype, (2, 6))]
        return b.Add(b.op("MatMul", v, w, types=types), b.const(MATRIX[0]))

    Rewrite(build, {"v": X[0, 0], "w": Y}, Gemm()).nothing()
