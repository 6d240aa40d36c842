"""MatMul takes vectors as they are."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.rules.constants import FoldConstants
from hlo2onnx.raising.rules.matmul import RowProduct, VectorBias, VectorMatMul
from hlo2onnx.raising.rules.shape import ComposeReshapes, DropIdentity
from hlo2onnx.raising.rules.units import LateReshape

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
    RowProduct(),
    VectorMatMul(),
    FoldConstants(),
    ComposeReshapes(),
    DropIdentity(),
    LateReshape(),
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
    Rewrite(build, {"v": tall}, RowProduct()).nothing()


def test_a_matrix_that_is_computed_or_shared_stays() -> None:
    def computed(b: GraphBuilder, v: oir.Value, w: oir.Value) -> oir.Value:
        return b.Neg(b.MatMul(w, b.reshape(v, [4, 1])))

    def shared(b: GraphBuilder, v: oir.Value) -> list[oir.Value]:
        weights = b.const(WEIGHTS)
        return [b.Neg(b.MatMul(weights, b.reshape(v, [4, 1]))), b.Neg(weights)]

    Rewrite(computed, {"v": VECTOR, "w": WEIGHTS}, RowProduct()).nothing()
    Rewrite(shared, {"v": VECTOR}, RowProduct()).nothing()


@pytest.mark.parametrize("swapped", [False, True])
def test_a_bias_is_a_vector(swapped: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        terms = [b.MatMul(x, b.const(MATRIX)), b.const(MATRIX[:1][None])]
        return b.Add(*terms[:: -1 if swapped else 1])

    rewrite = Rewrite(build, {"x": np.tile(VECTOR, (2, 5, 1))}, VectorBias(), FoldConstants())
    rewrite.gives("MatMul", "Add")
    (node,) = (node for node in rewrite.model.graph if node.op_type == "Add")
    assert [len(x.shape) for x in node.inputs if x is not None and x.shape is not None] == [3, 1]


@pytest.mark.parametrize("shape", [(3,), (5, 1), (1, 5, 3), (1, 1, 1, 3)])
def test_other_terms_stay(shape: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Add(b.MatMul(x, b.const(MATRIX)), b.const(np.ones(shape, np.float32)))

    Rewrite(build, {"x": np.tile(VECTOR, (2, 5, 1))}, VectorBias()).nothing()
