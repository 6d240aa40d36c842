"""Vectors, biases and sums of products that the rules must leave as they are."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.rules.nn.matmul import Gemm, MatvecToVecmat, VectorMatMul

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 7
Y = np.arange(48, dtype=np.float32).reshape(2, 4, 6) % 5
ROW, MATRIX = X[0], Y[0]
OTHERS: dict[str, tuple[Build, list[str] | None]] = {
    "a bias that is computed": (
        lambda b, x, w: b.Add(b.MatMul(x, w), b.ReduceMax(w, b.i64([0]), keepdims=1)),
        None,
    ),
    "a bias beside a sum": (lambda b, x, w: b.Add(b.Add(x, x), b.const(ROW[:1])), None),
    "a bias beside an input": (lambda b, x, w: b.Add(x, b.const(ROW[:1])), None),
    "a bias with more axes": (
        lambda b, x, w: b.Add(b.MatMul(x, w), b.const(MATRIX[None, :1])),
        None,
    ),
    "a bias of several rows": (lambda b, x, w: b.Add(b.MatMul(x, w), b.const(MATRIX[:3])), None),
    "a bias of one row": (lambda b, x, w: b.Add(b.MatMul(x, w), b.const(MATRIX[:1])), None),
    "a column of a row": (
        lambda b, x, w: b.MatMul(b.const(ROW[:1]), b.reshape(b.ReduceMax(w, b.i64([1])), (4, 1))),
        None,
    ),
    "a column of a vector": (
        lambda b, x, w: b.MatMul(
            b.const(ROW), b.reshape(b.ReduceMax(w, b.i64([1]), keepdims=0), (4, 1))
        ),
        ["MatMul", "ReduceMax", "Reshape", "Reshape", "Reshape", "Transpose"],
    ),
    "a column that is computed": (
        lambda b, x, w: b.MatMul(b.const(ROW), b.ReduceMax(w, b.i64([1]), keepdims=1)),
        None,
    ),
    "a batch of columns": (
        lambda b, x, w: b.MatMul(b.const(X), b.reshape(b.slice(w, [0], [2], axes=[1]), (2, 4, 1))),
        None,
    ),
    "several columns": (
        lambda b, x, w: b.MatMul(b.const(ROW), b.reshape(b.Transpose(w, perm=(1, 0)), (4, 6))),
        None,
    ),
    "a vector that was a matrix": (
        lambda b, x, w: b.reshape(
            b.MatMul(b.reshape(x, (1, 12)), b.const(np.ones((12, 2), np.float32))), (2,)
        ),
        None,
    ),
    "a row read in another shape": (
        lambda b, x, w: b.reshape(
            b.MatMul(b.unsqueeze(b.ReduceMax(x, b.i64([0]), keepdims=0), [0]), w), (2, 3)
        ),
        None,
    ),
    "a sum that is reshaped": (lambda b, x, w: b.reshape(b.Add(x, x), (12,)), None),
    "an input that is reshaped": (lambda b, x, w: b.Neg(b.reshape(x, (12,))), None),
}


@pytest.mark.parametrize("name", OTHERS)
def test_vectors_and_biases(name: str) -> None:
    build, left = OTHERS[name]
    rewrite = Rewrite(build, {"x": ROW, "w": MATRIX}, MatvecToVecmat(), VectorMatMul())
    rewrite.nothing() if left is None else rewrite.gives(*left)


def test_a_batch_of_vectors_stays() -> None:
    def build(b: GraphBuilder, v: oir.Value, w: oir.Value) -> oir.Value:
        return b.reshape(b.MatMul(b.reshape(v, (1, 4)), w), (2, 6))

    Rewrite(build, {"v": X[0, 0], "w": Y}, VectorMatMul()).nothing()


def test_gemms_of_targets_and_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return b.Add(b.MatMul(x, w), b.const(MATRIX[0]))

    def of_free(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return b.Add(b.MatMul(free(b, x, 3, "k"), free(b, w, "k", 6)), b.const(MATRIX[0]))

    def both(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return b.Add(b.MatMul(x, w), b.MatMul(b.Neg(x), w))

    inputs = {"x": ROW, "w": MATRIX}
    Rewrite(of_free, inputs, Gemm()).nothing()
    Rewrite(both, inputs, Gemm()).gives("Neg", "MatMul", "Gemm")
    Rewrite(plain, inputs, Gemm()).gives("Gemm")
    monkeypatch.setattr(Rewriter, "supports", lambda *_: False)
    Rewrite(plain, inputs, Gemm()).nothing()


def test_a_transpose_that_both_read() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        t = b.Transpose(x, perm=(1, 0))
        return b.Add(b.MatMul(t, t), x)

    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    rewrite = Rewrite(build, {"x": square}, Gemm())
    rewrite.gives("Transpose", "Gemm")


def test_a_vector_times_a_batch_is_no_gemm() -> None:
    """The product is a matrix, its operands are none."""

    def build(b: GraphBuilder, v: oir.Value, w: oir.Value) -> oir.Value:
        types = [(v.dtype, (2, 6))]
        return b.Add(b.op("MatMul", v, w, types=types), b.const(MATRIX[0]))

    Rewrite(build, {"v": X[0, 0], "w": Y}, Gemm()).nothing()
