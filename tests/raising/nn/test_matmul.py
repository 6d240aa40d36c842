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
from expressions import NOTHING, rewrites
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


WEIGHTS = MATRIX.T.copy()
VECTORS = {
    "v": VECTOR, "w": MATRIX, "n": WEIGHTS, "r": VECTOR[None], "t": np.tile(VECTOR, 2),
    "c": np.resize(VECTOR, (4, 2)),
}  # fmt: skip
CONSTANTS = {"WEIGHTS": WEIGHTS, "MATRIX": MATRIX, "FIRST": WEIGHTS[:, :1], "LAST": MATRIX[:, :1]}
PRODUCTS: dict[str, str] = {
    "squeeze(MatMul(unsqueeze(v, [0]), w), [0])": "MatMul",
    "squeeze(MatMul(unsqueeze(v, [0]), unsqueeze(v, [1])), [0, 1])": "MatMul",
    # From the right it is slow as such; a row that was no vector, two rows, and a result of rank 1.
    "reshape(MatMul(n, unsqueeze(v, [1])), [3])": NOTHING,
    "squeeze(MatMul(r, w), [0])": NOTHING,
    "reshape(MatMul(reshape(t, [2, 4]), w), [6])": NOTHING,
    "squeeze(MatMul(unsqueeze(v, [0]), unsqueeze(v, [1])), [0])": NOTHING,
}
COLUMNS: dict[str, str] = {
    # Matrices that are computed, or shared.
    "Neg(MatMul(n, reshape(v, [4, 1])))": NOTHING,
    "(Neg(MatMul(WEIGHTS, reshape(v, [4, 1]))), Neg(WEIGHTS))": NOTHING,
}
ROWS = (
    MatvecToVecmat(),
    VectorMatMul(),
    FoldConstants(),
    ComposeReshapes(),
    EliminateNop(),
    SinkReshape(),
)
LAYERS: dict[str, str] = {
    "reshape(MatMul(WEIGHTS, unsqueeze(v, [1])), [3])": "MatMul",
    "reshape(Neg(MatMul(MATRIX, Neg(MatMul(WEIGHTS, reshape(r, [4, 1])) + FIRST)) + LAST), [1, 4])":
        "MatMul Add Neg MatMul Add Neg",
    "Neg(MatMul(WEIGHTS, reshape(c, [4, 2])))": NOTHING,
}  # fmt: skip


@pytest.mark.parametrize("text", [*PRODUCTS, *LAYERS])
def test_vectors_are_rows(text: str) -> None:
    rules = (VectorMatMul(),) if text in PRODUCTS else ROWS
    left = (PRODUCTS | LAYERS)[text]
    rewrites(text, left, VECTORS, *rules, constants=CONSTANTS)


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_vectors_of_other_types(dtype: type) -> None:
    inputs = {name: array.astype(dtype) for name, array in VECTORS.items()}
    constants = {"WEIGHTS": WEIGHTS.astype(dtype)}
    for text, rules in ((next(iter(PRODUCTS)), ROWS[1:2]), (next(iter(LAYERS)), ROWS)):
        rewrites(text, "MatMul", inputs, *rules, constants=constants)


@pytest.mark.parametrize("text", COLUMNS)
def test_columns_stay_columns(text: str) -> None:
    rewrites(text, COLUMNS[text], VECTORS, MatvecToVecmat(), constants=CONSTANTS)


@pytest.mark.parametrize("shape", [(4, 1), (4, 1, 1), (4, 2, 1)])
def test_columns_that_were_no_vectors_stay(shape: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, v: oir.Value) -> oir.Value:
        return b.Neg(b.MatMul(b.const(WEIGHTS), b.reshape(v, shape[:2])))

    rules = ROWS if len(shape) == 2 else ROWS[:1]
    Rewrite(build, {"v": np.resize(VECTOR, shape)}, *rules).nothing()


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
