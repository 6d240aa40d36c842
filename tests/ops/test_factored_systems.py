"""Systems that a program solves by LU factors: `jax.numpy.linalg.solve`."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.linalg import expm, lu_factor, lu_solve, solve_triangular
from matrices import REAL, like_jax, matrix

import hlo2onnx
from dialect_handlers.common import factored_systems
from dialect_handlers.common.linalg.solve import suits

Solver = Callable[[jax.Array, jax.Array], object]


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the systems that are solved at once."""
    found = []

    def noted(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        if suits(a, b):
            found.append((*a, *b))
        return suits(a, b)

    monkeypatch.setattr(factored_systems, "suits", noted)
    return found


def vector(n: int, dtype: str = "float32") -> np.ndarray:
    first: np.ndarray = matrix((n, 1), dtype)[:, 0]
    return first


@pytest.mark.wide
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("n", [5, 8, 33, 70])
def test_solution(fused: list[tuple[int, ...]], n: int, dtype: str) -> None:
    """Blocks, too: one that is whole, and more than one."""
    like_jax(jnp.linalg.solve, matrix((n, n), dtype), vector(n, dtype)).close()
    assert fused == [(n, n, n, 1)]


@pytest.mark.wide
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize(("n", "m"), [(5, 2), (8, 8), (33, 6), (70, 3)])
def test_several_right_sides(fused: list[tuple[int, ...]], n: int, m: int, dtype: str) -> None:
    """JAX permutes them as a batch of vectors, and transposes before and after."""
    like_jax(jnp.linalg.solve, matrix((n, n), dtype), matrix((n, m), dtype)).close()
    assert fused == [(n, n, n, m)]


@pytest.mark.wide
@pytest.mark.parametrize("n", [5, 40])
def test_inverse(fused: list[tuple[int, ...]], n: int) -> None:
    like_jax(jnp.linalg.inv, matrix((n, n), "float32")).close()
    assert fused == [(n, n, n, n)]


@pytest.mark.wide
def test_exponential(fused: list[tuple[int, ...]]) -> None:
    """The quotient of a Pade approximant, in a branch."""
    like_jax(expm, matrix((6, 6), "float32")).close()
    assert fused == [(6, 6, 6, 6)]


def test_more_right_sides_than_rows(fused: list[tuple[int, ...]]) -> None:
    """Eliminating them all with the matrix takes longer than products with the factor L."""
    like_jax(jnp.linalg.solve, matrix((5, 5), "float32"), matrix((5, 7), "float32")).close()
    assert not fused


def _zero_first() -> np.ndarray:
    a: np.ndarray = matrix((6, 6), "float32")
    a[0, 0] = 0
    return a


def _permutation() -> np.ndarray:
    return np.eye(6, dtype=np.float32)[[3, 1, 5, 0, 2, 4]]


def _with(value: float) -> np.ndarray:
    a: np.ndarray = matrix((6, 6), "float32")
    a[2, 4] = value
    return a


def _equal_elements() -> np.ndarray:
    lower = np.tri(6, dtype=np.float32)
    return 2 * lower - 1 + np.eye(6, dtype=np.float32)


def _diagonal(*elements: float) -> np.ndarray:
    return np.diag(np.array(elements, np.float32))


_UNUSUAL = [
    pytest.param(_zero_first(), id="zero first"),
    pytest.param(_permutation(), id="permutation"),
    pytest.param(_equal_elements(), id="equal elements"),
    pytest.param(np.zeros((6, 6), np.float32), id="zero"),
    pytest.param(_diagonal(1, 2, 0, 3, 4, 5), id="singular"),
    pytest.param(_with(np.nan), id="nan"),
    pytest.param(_with(np.inf), id="inf"),
    pytest.param(_diagonal(1e-30, 1, 1e30, 1e-20, 1, 1e10), id="extreme"),
]
_RANK_ONE = pytest.param(np.ones((6, 6), np.float32), id="rank one")


@pytest.mark.costly
@pytest.mark.parametrize("a", [*_UNUSUAL, _RANK_ONE])
def test_matrices(fused: list[tuple[int, ...]], a: np.ndarray) -> None:
    """Where the residual is not small, the factors decide as in LAPACK."""
    like_jax(jnp.linalg.solve, a, vector(6)).close()
    assert fused


@pytest.mark.costly
@pytest.mark.parametrize("a", _UNUSUAL)
def test_inverses_of_matrices(fused: list[tuple[int, ...]], a: np.ndarray) -> None:
    """Each column of the result has its own infinities and NaN."""
    like_jax(jnp.linalg.inv, a).close()
    assert fused


@pytest.mark.wide
def test_right_side_with_nan() -> None:
    b = vector(6)
    b[1] = np.nan
    like_jax(jnp.linalg.solve, matrix((6, 6), "float32"), b).close()
    sides = jnp.stack([b, vector(6)], 1)
    like_jax(jnp.linalg.solve, matrix((6, 6), "float32"), sides).close()


def _columns(b: jax.Array, order: jax.Array) -> jax.Array:
    return b[:, order]


def _transposed_rows(b: jax.Array, order: jax.Array) -> jax.Array:
    return b[order].T


def _split_rows(b: jax.Array, order: jax.Array) -> jax.Array:
    return b[order].reshape(2, 18).T.reshape(6, 6)


def _more_rows(b: jax.Array, order: jax.Array) -> jax.Array:
    return jnp.concatenate([b, b])[order]


def _reversed(b: jax.Array, order: jax.Array) -> jax.Array:
    return b[order[::-1]]


@pytest.mark.wide
@pytest.mark.parametrize("moved", [_columns, _transposed_rows, _split_rows, _more_rows, _reversed])
def test_right_sides_in_another_order(fused: list[tuple[int, ...]], moved: Solver) -> None:
    """The rows of the right-hand sides are not those of the matrix."""

    def solved(a: jax.Array, b: jax.Array) -> jax.Array:
        packed, _, order = lax.linalg.lu(a)
        y = solve_triangular(packed, moved(b, order), lower=True, unit_diagonal=True)
        return solve_triangular(packed, y)

    like_jax(solved, matrix((6, 6), "float32"), matrix((6, 6), "float32", seed=1)).close()
    assert not fused


@pytest.mark.wide
def test_vectors_between_the_systems(fused: list[tuple[int, ...]]) -> None:
    """The second system solves for other columns than the first one."""

    def solved(a: jax.Array, b: jax.Array) -> jax.Array:
        packed, _, order = lax.linalg.lu(a)
        y = solve_triangular(packed, b[order], lower=True, unit_diagonal=True)
        return solve_triangular(packed, y.reshape(3, 2, 6).reshape(6, 6).T)

    like_jax(solved, matrix((6, 6), "float32"), matrix((6, 6), "float32", seed=1)).close()
    assert not fused


def _two(a: jax.Array, b: jax.Array) -> object:
    factors = lu_factor(a)
    return lu_solve(factors, b), lu_solve(factors, b + 1)


def _factors_too(a: jax.Array, b: jax.Array) -> object:
    factors = lu_factor(a)
    return lu_solve(factors, b), factors[0]


def _transposed(a: jax.Array, b: jax.Array) -> object:
    return lu_solve(lu_factor(a), b, trans=1)


def _in_loop(a: jax.Array, b: jax.Array) -> object:
    factors = lu_factor(a)
    return lax.fori_loop(0, 3, lambda _, x: lu_solve(factors, x), b)


def _of_batch(a: jax.Array, b: jax.Array) -> object:
    return jnp.linalg.solve(jnp.stack([a, 2 * a]), jnp.stack([b, b])[..., None])


@pytest.mark.wide
@pytest.mark.parametrize("solver", [_two, _factors_too, _transposed, _in_loop, _of_batch])
def test_factors_that_serve_more(fused: list[tuple[int, ...]], solver: Solver) -> None:
    """One elimination is enough for factors that are read more than once."""
    like_jax(solver, matrix((6, 6), "float32"), vector(6)).close()
    assert not fused


@pytest.mark.wide
def test_matrices_of_few_rows_are_written_out(fused: list[tuple[int, ...]]) -> None:
    like_jax(jnp.linalg.solve, matrix((4, 4), "float32"), vector(4)).close()
    assert not fused


@pytest.mark.wide
def test_inside_of_a_loop(fused: list[tuple[int, ...]]) -> None:
    """A loop that factors a matrix of its own."""

    def solved(a: jax.Array, b: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 2, lambda i, x: jnp.linalg.solve(a + i, x), b)

    like_jax(solved, matrix((6, 6), "float32"), vector(6)).close()
    assert fused


@pytest.mark.wide
def test_fewer_loops() -> None:
    """No loop substitutes forwards: one eliminates, and others are in branches."""
    types = [jax.ShapeDtypeStruct(shape, np.float32) for shape in [(20, 20), (20,)]]
    program = hlo2onnx.translate(jnp.linalg.solve, *types)
    found = [node.op_type for node in program.model_proto.graph.node]
    assert (found.count("Scan"), found.count("If")) == (1, 1)
