"""Many small matrices times a vector each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array, lax
from rewriting import Rewrite, fires
from target_costs import use_costs, with_costs
from verified import verified

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.raising.rules.algebra.constant_folding import FoldConstants
from hlo2onnx.raising.rules.nn.matmul import BatchedMatvec
from hlo2onnx.raising.rules.shapes.reshape import ComposeReshapes, EliminateNop
from hlo2onnx.targets import load_target

MANY = with_costs(matvecs=4, matvec_elements=12)
RNG = np.random.default_rng(0)


def product(b: GraphBuilder, a: oir.Value, v: oir.Value) -> oir.Value:
    return b.MatMul(a, v)


def inputs(*dims: int, dtype: str = "f4") -> dict[str, np.ndarray]:
    *batch, _, terms = dims
    shapes = {"a": dims, "v": (*batch, terms, 1)}
    return {name: RNG.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("dims", [(4, 3, 4), (2, 2, 4, 3), (5, 12, 1), (5, 1, 12)])
def test_products(dims: tuple[int, ...], dtype: str) -> None:
    rewrite = Rewrite(
        product, inputs(*dims, dtype=dtype), BatchedMatvec(), tolerance=3e-7, target=MANY
    )
    reshapes = [] if dims[-1] == 1 else ["Reshape"]
    tiles = [] if dims[-2] == 1 else ["Tile"]
    rewrite.gives(*reshapes, *tiles, "Mul", "ReduceSum")


def dots(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    """The product of each vector of x with that of y."""
    product = b.MatMul(b.unsqueeze(x, [-2]), b.unsqueeze(y, [-1]))
    return b.squeeze(product, [-2, -1])


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 4), (3, 1), (1, 64)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_vectors_with_vectors(shape: tuple[int, ...], dtype: str) -> None:
    """Any number of them, as the reshapes go."""
    given = {name: RNG.normal(size=shape).astype(dtype) for name in "xy"}
    rules = (BatchedMatvec(), ComposeReshapes(), EliminateNop())
    Rewrite(dots, given, *rules, tolerance=3e-7).gives("Mul", "ReduceSum")
    assert not fires(dots, given, *rules, target=load_target("onnx"))


def test_vectors_with_constant_columns() -> None:
    columns = RNG.normal(size=(2, 3, 1)).astype(np.float32)
    build = lambda b, x: b.MatMul(b.unsqueeze(x, [1]), b.const(columns))  # noqa: E731
    given = {"x": RNG.normal(size=(2, 3)).astype(np.float32)}
    rules = (BatchedMatvec(), FoldConstants())
    Rewrite(build, given, *rules, tolerance=3e-7).gives("Mul", "ReduceSum", "Reshape")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("is_left", [False, True])
def test_one_vector_with_a_constant(is_left: bool, dtype: str) -> None:
    constant = np.array([np.inf, -0.0, 3], dtype)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        row, column = b.unsqueeze(x, [1]), b.const(constant.reshape(1, 3, 1))
        if is_left:
            row, column = b.const(constant.reshape(1, 1, 3)), b.unsqueeze(x, [2])
        return b.squeeze(b.MatMul(row, column), [-1])

    rules = (BatchedMatvec(), ComposeReshapes(), EliminateNop(), FoldConstants())
    for x in ([1, 2, 3], [1, np.nan, 0], [0, np.inf, 1], [-1, 1e38, -5]):
        given = {"x": np.array([x], dtype)}
        Rewrite(build, given, *rules, tolerance=3e-7).gives("MatMul")


@pytest.mark.parametrize("shape", [(2, 65), (2, 0), (3,)])
def test_long_and_empty_vectors_and_one_alone_stay(shape: tuple[int, ...]) -> None:
    given = {name: RNG.normal(size=shape).astype(np.float32) for name in "xy"}
    assert not fires(dots, given, BatchedMatvec())


def test_rows_that_were_no_vectors_stay() -> None:
    given = inputs(5, 1, 3)
    assert not fires(product, given, BatchedMatvec())
    swapped = lambda b, a, v: b.MatMul(b.reshape(a, (3, 1, 5)), b.reshape(v, (3, 5, 1)))  # noqa: E731
    assert not fires(swapped, given, BatchedMatvec())


def test_at_the_edges() -> None:
    """NaN and infinities stay in their rows, and a sum of negative zeros is a positive one."""
    given = inputs(5, 2, 2)
    given["a"][:, 0] = [[np.nan, 1], [np.inf, 1], [np.inf, -np.inf], [-0.0, -0.0], [3e38, 3e38]]
    given["v"][:] = 2
    Rewrite(product, given, BatchedMatvec(), tolerance=3e-7, target=MANY).gives(
        "Reshape", "Tile", "Mul", "ReduceSum"
    )


@pytest.mark.parametrize("dims", [(3, 3, 4), (4, 13, 1), (4, 0, 4), (4, 3, 0), (3, 4)])
def test_few_large_and_empty_ones_stay(dims: tuple[int, ...]) -> None:
    assert not fires(product, inputs(*dims), BatchedMatvec(), target=MANY)


@pytest.mark.parametrize("dtype", ["f2", "i4"])
def test_other_types_stay(dtype: str) -> None:
    assert not fires(product, inputs(4, 3, 4, dtype=dtype), BatchedMatvec(), target=MANY)


def test_other_products_stay() -> None:
    given = inputs(4, 3, 3)
    assert not fires(product, {"a": given["a"], "v": given["a"]}, BatchedMatvec(), target=MANY)
    assert not fires(product, {"a": given["a"], "v": given["v"][0]}, BatchedMatvec(), target=MANY)
    one = {"a": given["a"][:1], "v": given["v"]}
    moved = lambda b, a, v: b.MatMul(b.transpose(a, (0, 2, 1)), v)  # noqa: E731
    assert not fires(moved, given, BatchedMatvec(), target=MANY)
    assert not fires(product, one, BatchedMatvec(), target=MANY)
    assert not fires(product, inputs(64, 8, 8), BatchedMatvec(), target=load_target("onnx"))


def test_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, matvecs=4, matvec_elements=12)
    given = inputs(5, 3, 4)
    a, v = given["a"], given["v"][..., 0]
    program = hlo2onnx.translate(lambda a, v: jnp.einsum("bij,bj->bi", a, v), a, v)
    assert program.report.rules["batched-matvec"]
    assert program.verify(a, v)


MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
VECTOR = np.array([1, -2, 3], np.float32)


def repeated(trip: Callable[[Any], Any], start: Any) -> Any:
    """More trips than are unrolled, by a condition."""
    after = lambda carry: (carry[0] + 1, trip(carry[1]))  # noqa: E731
    return lax.while_loop(lambda carry: carry[0] < 40, after, (jnp.int32(0), start))[1]


def step(matrix: Array, x: Array) -> Array:
    return jnp.tanh(matrix @ x)[:3] + x


def test_a_matrix_around_the_loop() -> None:
    def run(matrix: Array, x: Array) -> Array:
        return repeated(lambda y: step(matrix, y), x)

    program = verified(run, MATRIX, VECTOR)
    graph = program.model.graph
    assert program.report.rules["matvec-to-vecmat"] == 1
    assert "Transpose" in {node.op_type for node in graph}
    (loop,) = (node for node in graph if subgraphs(node))
    inside = [node.op_type for node in subgraphs(loop)[0]]
    assert not {"Unsqueeze", "Squeeze", "Reshape", "Transpose"} & set(inside)


def test_matrices_that_stay() -> None:
    def carried(matrix: Array, x: Array) -> Array:
        def trip(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            return carry[0] * 0.5, step(carry[0], carry[1])

        return repeated(trip, (matrix, x))[1]

    def branch(matrix: Array, x: Array) -> Array:
        return lax.cond(x[0] > 0, lambda: step(matrix, x), lambda: x)

    def large(matrix: Array, x: Array) -> Array:
        wide = jnp.tile(matrix, (40, 40))

        def trip(y: Array) -> Array:
            return jnp.tanh(wide @ jnp.tile(y, 40))[:3] + y

        return repeated(trip, x)

    for run in (carried, branch, large):
        assert not verified(run, MATRIX, VECTOR).report.rules["matvec-to-vecmat"]
