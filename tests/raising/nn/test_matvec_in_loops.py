"""Products of a matrix with vectors in a loop: the matrix is transposed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from verified import verified

from hlo2onnx.ir.traversal import subgraphs

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
