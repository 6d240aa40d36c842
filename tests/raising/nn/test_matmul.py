"""MatMul takes vectors as they are, and a bias makes it a Gemm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as oir
import onnxruntime
import pytest
from jax import lax
from rewriting import Rewrite
from verified import nodes

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.constant_folding import FoldConstants
from hlo2onnx.raising.rules.nn.matmul import Gemm, MatvecToVecmat, VectorMatMul
from hlo2onnx.raising.rules.shapes.reshape import (
    ComposeReshapes,
    EliminateNop,
    SinkReshape,
)

RNG = np.random.default_rng(0)
VECTOR = RNG.integers(-3, 4, 4).astype(np.float32)
MATRIX = RNG.integers(-3, 4, (4, 3)).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_a_vector_on_the_left(dtype: type) -> None:
    def build(b: GraphBuilder, v: oir.Value, w: oir.Value) -> oir.Value:
        return b.squeeze(b.MatMul(b.unsqueeze(v, [0]), w), [0])

    inputs = {"v": VECTOR.astype(dtype), "w": MATRIX.astype(dtype)}
    Rewrite(build, inputs, VectorMatMul()).gives("MatMul")


def test_a_vector_on_the_right_is_slow_as_such() -> None:
    def build(b: GraphBuilder, v: oir.Value, w: oir.Value) -> oir.Value:
        return b.reshape(b.MatMul(w, b.unsqueeze(v, [1])), [3])

    Rewrite(build, {"v": VECTOR, "w": MATRIX.T.copy()}, VectorMatMul()).nothing()


def test_a_row_that_was_no_vector() -> None:
    def build(b: GraphBuilder, v: oir.Value, w: oir.Value) -> oir.Value:
        return b.squeeze(b.MatMul(v, w), [0])

    Rewrite(build, {"v": VECTOR[None], "w": MATRIX}, VectorMatMul()).nothing()


def test_two_rows_stay_two() -> None:
    def build(b: GraphBuilder, v: oir.Value, w: oir.Value) -> oir.Value:
        return b.reshape(b.MatMul(b.reshape(v, [2, 4]), w), [6])

    Rewrite(build, {"v": np.tile(VECTOR, 2), "w": MATRIX}, VectorMatMul()).nothing()


def test_an_inner_product() -> None:
    def build(b: GraphBuilder, v: oir.Value) -> oir.Value:
        return b.squeeze(b.MatMul(b.unsqueeze(v, [0]), b.unsqueeze(v, [1])), [0, 1])

    Rewrite(build, {"v": VECTOR}, VectorMatMul()).gives("MatMul")


def test_an_inner_product_that_stays_a_tensor_of_rank_1() -> None:
    def build(b: GraphBuilder, v: oir.Value) -> oir.Value:
        return b.squeeze(b.MatMul(b.unsqueeze(v, [0]), b.unsqueeze(v, [1])), [0])

    Rewrite(build, {"v": VECTOR}, VectorMatMul()).nothing()


WEIGHTS = MATRIX.T.copy()
ROWS = (
    MatvecToVecmat(),
    VectorMatMul(),
    FoldConstants(),
    ComposeReshapes(),
    EliminateNop(),
    SinkReshape(),
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_a_constant_matrix_times_a_vector(dtype: type) -> None:
    def build(b: GraphBuilder, v: oir.Value) -> oir.Value:
        return b.reshape(b.MatMul(b.const(WEIGHTS.astype(dtype)), b.unsqueeze(v, [1])), [3])

    Rewrite(build, {"v": VECTOR.astype(dtype)}, *ROWS).gives("MatMul")


def test_layers_of_one_vector_are_rows() -> None:
    def build(b: GraphBuilder, v: oir.Value) -> oir.Value:
        column = b.reshape(v, [4, 1])
        for weights in (WEIGHTS, MATRIX):
            product = b.MatMul(b.const(weights), column)
            column = b.Neg(b.Add(product, b.const(weights[:, :1])))
        return b.reshape(column, [1, 4])

    Rewrite(build, {"v": VECTOR[None]}, *ROWS).gives("MatMul", "Add", "Neg", "MatMul", "Add", "Neg")


@pytest.mark.parametrize("shape", [(4, 1), (4, 2)])
def test_columns_stay_columns(shape: tuple[int, int]) -> None:
    def build(b: GraphBuilder, v: oir.Value) -> oir.Value:
        return b.Neg(b.MatMul(b.const(WEIGHTS), b.reshape(v, list(shape))))

    array = np.resize(VECTOR, shape)
    Rewrite(build, {"v": array}, *ROWS).nothing()
    tall = np.resize(VECTOR, (*shape, 1))
    Rewrite(build, {"v": tall}, MatvecToVecmat()).nothing()


def test_a_matrix_that_is_computed_or_shared_stays() -> None:
    def computed(b: GraphBuilder, v: oir.Value, w: oir.Value) -> oir.Value:
        return b.Neg(b.MatMul(w, b.reshape(v, [4, 1])))

    def shared(b: GraphBuilder, v: oir.Value) -> list[oir.Value]:
        weights = b.const(WEIGHTS)
        return [b.Neg(b.MatMul(weights, b.reshape(v, [4, 1]))), b.Neg(weights)]

    Rewrite(computed, {"v": VECTOR, "w": WEIGHTS}, MatvecToVecmat()).nothing()
    Rewrite(shared, {"v": VECTOR}, MatvecToVecmat()).nothing()


ROW = RNG.integers(-3, 4, (5, 4)).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("shape", [(3,), (1,), (1, 3), (5, 1), (1, 1), (5, 3)])
def test_a_product_and_a_bias(shape: tuple[int, ...], swapped: bool, dtype: type) -> None:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value, c: oir.Value) -> oir.Value:
        return b.Add(*(b.MatMul(x, w), c)[:: -1 if swapped else 1])

    inputs = {"x": ROW, "w": MATRIX, "c": RNG.integers(-3, 4, shape)}
    Rewrite(build, {name: x.astype(dtype) for name, x in inputs.items()}, Gemm()).gives("Gemm")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3,), (5, 1), (5, 3)])
def test_a_bias_minus_a_product(shape: tuple[int, ...], dtype: type) -> None:
    inputs = {"x": ROW, "w": MATRIX, "c": RNG.integers(-3, 4, shape)}
    inputs = {name: x.astype(dtype) for name, x in inputs.items()}
    rewrite = Rewrite(lambda b, x, w, c: b.Sub(c, b.MatMul(x, w)), inputs, Gemm())
    rewrite.gives("Gemm")
    (node,) = rewrite.model.graph
    assert node.attributes.get_float("alpha", 1.0) == -1
    Rewrite(lambda b, x, w, c: b.Sub(b.MatMul(x, w), c), inputs, Gemm()).nothing()


def test_a_wider_bias_minus_a_product_stays() -> None:
    inputs = {"x": ROW, "w": MATRIX, "c": np.ones((2, 5, 3), np.float32)}
    Rewrite(lambda b, x, w, c: b.Sub(c, b.MatMul(x, w)), inputs, Gemm()).nothing()


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_transposed_operands(left: bool, right: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        x = b.Transpose(x, perm=(1, 0)) if left else x
        w = b.Transpose(w, perm=(1, 0)) if right else w
        return b.Add(b.MatMul(x, w), b.const(MATRIX[0]))

    inputs = {"x": ROW.T.copy() if left else ROW, "w": WEIGHTS if right else MATRIX}
    rewrite = Rewrite(build, inputs, Gemm())
    rewrite.gives("Gemm")
    (node,) = rewrite.model.graph
    flags = [node.attributes.get_int(name, 0) for name in ("transA", "transB")]
    assert flags == [left, right]


def test_a_matrix_that_others_read_transposed() -> None:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> list[oir.Value]:
        turned = b.Transpose(w, perm=(1, 0))
        return [b.Add(b.MatMul(x, turned), b.const(MATRIX[0])), b.Neg(turned)]

    Rewrite(build, {"x": ROW, "w": WEIGHTS}, Gemm()).gives("Transpose", "Gemm", "Neg")


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_vector_that_is_reshaped(side: str) -> None:
    """A row that becomes a column, or a column that becomes a row, is transposed."""
    left, right = (RNG.integers(-3, 4, (4, 1)).astype(np.float32) for _ in range(2))
    if side == "left":
        left, right = left.T, right.T

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        column, row = (b.reshape(x, [4, 1]), y) if side == "left" else (x, b.reshape(y, [1, 4]))
        return b.Sub(b.const(MATRIX @ MATRIX.T), b.MatMul(column, row))

    Rewrite(build, {"x": left, "y": right}, Gemm()).gives("Gemm")


def test_a_reshape_that_transposes_nothing() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(b.MatMul(b.reshape(x, [4, 1]), y), b.const(MATRIX @ MATRIX.T))

    square = RNG.integers(-3, 4, (2, 2)).astype(np.float32)
    Rewrite(build, {"x": square, "y": VECTOR[None]}, Gemm()).gives("Reshape", "Gemm")


def test_a_matrix_times_itself_transposed() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Add(b.MatMul(x, b.Transpose(x, perm=(1, 0))), x)

    Rewrite(build, {"x": np.ones((4, 4), np.float32)}, Gemm()).gives("Gemm")


@pytest.mark.parametrize("rows, columns", [(0, 3), (5, 0)])
def test_an_empty_gemm(rows: int, columns: int) -> None:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value, c: oir.Value) -> oir.Value:
        return b.Add(b.MatMul(x, w), c)

    inputs = {"x": ROW[:rows], "w": MATRIX[:, :columns], "c": MATRIX[0, :columns]}
    Rewrite(build, inputs, Gemm()).gives("Gemm")


NO_GEMM: dict[str, tuple[Callable[..., Any], np.ndarray, np.ndarray]] = {
    "a-number": (lambda b, p: b.Add(p, b.const(np.float32(2))), ROW, MATRIX),
    "more-rows": (lambda b, p: b.Add(p, b.const(ROW[:, :3])), ROW[:1], MATRIX),
    "more-columns": (lambda b, p: b.Add(p, b.const(MATRIX[0])), ROW, MATRIX[:, :1]),
    "more-axes": (lambda b, p: b.Add(p, b.const(MATRIX[None, :1])), ROW, MATRIX),
    "batches": (lambda b, p: b.Add(p, b.const(MATRIX[0])), np.stack([ROW, ROW]), MATRIX),
    "a-vector": (lambda b, p: b.Add(p, b.const(MATRIX[0])), ROW[0], MATRIX),
    "read-twice": (lambda b, p: b.Mul(p, b.Add(p, b.const(MATRIX[0]))), ROW, MATRIX),
    "doubled": (lambda b, p: b.Add(p, p), ROW, MATRIX),
    "a-result": (lambda b, p: [p, b.Add(p, b.const(MATRIX[0]))], ROW, MATRIX),
    "taken-from": (lambda b, p: b.Sub(p, b.const(MATRIX[0])), ROW, MATRIX),
    "nothing-to-add-up": (lambda b, p: b.Add(p, b.const(-MATRIX[0])), ROW[:, :0], MATRIX[:0]),
    "ends-elsewhere": (lambda b, p: b.Add(b.Relu(p), b.const(MATRIX[0])), ROW, MATRIX),
}


@pytest.mark.parametrize("name", NO_GEMM)
def test_other_sums(name: str) -> None:
    finish, left, right = NO_GEMM[name]

    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> Any:
        types = [(oir.DataType.FLOAT, (left @ right).shape)]
        return finish(b, b.op("MatMul", x, w, types=types))

    Rewrite(build, {"x": left, "w": right}, Gemm()).nothing()


@pytest.mark.parametrize("dtype", [np.int32, np.float16])
def test_types_without_a_gemm(dtype: type) -> None:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value) -> oir.Value:
        return b.Add(b.MatMul(x, w), b.const(MATRIX[0].astype(dtype)))

    Rewrite(build, {"x": ROW.astype(dtype), "w": MATRIX.astype(dtype)}, Gemm()).nothing()


def dense(x: Any) -> Any:
    return jax.nn.relu(x @ MATRIX + MATRIX[0]) @ MATRIX.T + VECTOR


def test_layers_are_gemms() -> None:
    assert nodes(dense, ROW) == {"Gemm": 2, "Relu": 1}
    assert nodes(dense, ROW, without={"gemm"}) == {"MatMul": 2, "Add": 2, "Relu": 1}


def test_any_number_of_rows() -> None:
    (n,) = jax.export.symbolic_shape("n")
    program = hlo2onnx.translate(
        jax.export.export(jax.jit(dense))(jax.ShapeDtypeStruct((n, 4), np.float32))
    )
    assert program.report.nodes["Gemm"] == 2
    for rows in (1, 5):
        assert program.verify(ROW[:rows]).ok


def test_gemms_in_bodies() -> None:
    function = lambda x, n: lax.fori_loop(0, n, lambda _, x: jnp.tanh(dense(x)), x)  # noqa: E731
    assert nodes(function, ROW, np.int32(3))["Gemm"] == 2


def test_a_product_from_before_a_loop_stays_there() -> None:
    def function(x: Any, y: Any, n: Any) -> Any:
        product = y @ MATRIX
        return lax.fori_loop(0, n, lambda _, x: jnp.sin(product + x), x)

    found = nodes(function, ROW[:, :3], ROW, np.int32(3))
    assert (found["MatMul"], found["Gemm"]) == (1, 0)


def test_the_runtime_still_fuses_activations(tmp_path: Path) -> None:
    program = hlo2onnx.translate(jax.jit(dense).lower(ROW))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    nodes = onnx.load(options.optimized_model_filepath).graph.node
    assert [node.op_type for node in nodes] == ["FusedGemm", "Gemm"]


def test_grouped_query_attention_transposes_no_scores() -> None:
    def scores(query: jax.Array, key: jax.Array) -> jax.Array:
        return jnp.einsum("btkgh,bskh->bkgts", query, key)

    query, key = np.ones((2, 5, 2, 3, 4), np.float32), np.ones((2, 5, 2, 4), np.float32)
    program = hlo2onnx.translate(jax.jit(scores).lower(query, key))
    assert program.verify(query, key).ok
    assert [node.op_type for node in program.model.graph].count("Transpose") == 2
