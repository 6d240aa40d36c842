"""Transposes around MatMul: where they change places, and where that would cost more."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
from rewriting import Rewrite

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.matmul import MatMulTranspose
from hlo2onnx.raising.rules.shapes.reshape import ComposeTransposes, EliminateNop
from hlo2onnx.raising.rules.shapes.transpose import TransposeBeforeCollapse

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4) % 7
Y = np.arange(2 * 4 * 6, dtype=np.float32).reshape(2, 4, 6) % 5
LAST = (0, 2, 1)
RULES = (
    MatMulTranspose(),
    TransposeBeforeCollapse(),
    ComposeTransposes(),
    EliminateNop(),
)


def test_swap_product() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        product = b.MatMul(b.Transpose(x, perm=LAST), b.Transpose(y, perm=LAST))
        return b.Neg(b.Transpose(product, perm=LAST))

    Rewrite(build, {"x": X.swapaxes(1, 2).copy(), "y": Y.swapaxes(1, 2).copy()}, *RULES).gives(
        "MatMul", "Neg"
    )


def test_swap_product_of_split_columns() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        product = b.MatMul(b.Transpose(x, perm=LAST), b.Transpose(y, perm=LAST))
        return b.Neg(b.Transpose(b.reshape(product, (2, 3, 2, 3)), perm=(0, 2, 3, 1)))

    inputs = {"x": X.swapaxes(1, 2).copy(), "y": Y.swapaxes(1, 2).copy()}
    Rewrite(build, inputs, *RULES).gives("MatMul", "Reshape", "Neg")


def test_operands_that_are_not_transposed_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(b.MatMul(x, y), perm=LAST))

    Rewrite(build, {"x": X, "y": Y}, *RULES).nothing()


def test_products_that_others_read_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        product = b.MatMul(b.Transpose(x, perm=LAST), b.Transpose(y, perm=LAST))
        return [b.Neg(product), b.Neg(b.Transpose(product, perm=LAST))]

    inputs = {"x": X.swapaxes(1, 2).copy(), "y": Y.swapaxes(1, 2).copy()}
    Rewrite(build, inputs, *RULES).nothing()


def test_transpose_before_join() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        joined = b.reshape(b.Transpose(x, perm=(2, 0, 1)), (4, 6))
        return b.Neg(b.Transpose(joined, perm=(1, 0)))

    Rewrite(build, {"x": X}, *RULES).gives("Reshape", "Neg")


def test_transpose_before_join_needs_a_join() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        mixed = b.reshape(b.Transpose(x, perm=(2, 0, 1)), (3, 8))
        return b.Neg(b.Transpose(mixed, perm=(1, 0)))

    Rewrite(build, {"x": X}, *RULES).nothing()


def test_grouped_query_attention_transposes_no_scores() -> None:
    def scores(query: jax.Array, key: jax.Array) -> jax.Array:
        return jnp.einsum("btkgh,bskh->bkgts", query, key)

    query, key = np.ones((2, 5, 2, 3, 4), np.float32), np.ones((2, 5, 2, 4), np.float32)
    program = hlo2onnx.translate(jax.jit(scores).lower(query, key))
    assert program.verify(query, key).ok
    assert [node.op_type for node in program.model.graph].count("Transpose") == 2


def test_columns_that_were_joined_nowhere() -> None:
    """They are split after the product, and change places: only that is left to a Transpose."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        product = b.MatMul(b.transpose(x, (1, 0)), b.const(np.ones((4, 6), np.float32)))
        return b.Neg(b.transpose(b.reshape(product, (5, 2, 3)), (2, 1, 0)))

    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    found = Rewrite(build, {"x": x}, MatMulTranspose())
    assert found.fired["matmul-transpose"] == 1
