"""Jacobi's rotations of all pairs of rows at once, in plain JAX, against the definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factors import adjoint, assert_equal, assert_unitary, wide
from matrices import hermitian, matrix, text_of

import hlo2onnx
from dialect_handlers.common.linalg import simultaneous
from dialect_handlers.common.linalg.eigh import eigh
from dialect_handlers.common.linalg.svd import singular_values, svd

UNITS = 2


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def with_eigenvalues(*values: float) -> np.ndarray:
    n = len(values)
    q = np.linalg.qr(matrix((n, n), "float64"))[0]
    a = (q * np.array(values)) @ q.T
    symmetric: np.ndarray = (a + a.T) / 2
    return symmetric


PLACE = np.arange(8)
TINY = 1e-5 * hermitian((8, 8), "float64")
SYMMETRIC: dict[str, np.ndarray] = {
    "random": hermitian((8, 8), "float64"),
    "zeros": np.zeros((8, 8)),
    "ones": np.ones((8, 8)),
    "identity": np.eye(8),
    "nearly the identity": np.eye(8) + TINY,
    "exchange": np.eye(8)[::-1].copy(),
    "nearly an exchange": np.eye(8)[::-1] + TINY,
    "two values": with_eigenvalues(1, 1, 1, 2, 2, 1, 2, 1),
    "two clusters": with_eigenvalues(*(np.where(PLACE % 2, 1, -1) + 1e-5 * PLACE)),
    "clusters as close as rounding": with_eigenvalues(*(np.where(PLACE < 4, 1, 2) + 1e-15 * PLACE)),
    "geometric": with_eigenvalues(*10.0**-PLACE),
    "graded": 10.0 ** -np.maximum(PLACE[:, None], PLACE),
    "Hilbert": 1 / (PLACE[:, None] + PLACE + 1),
    "path": np.eye(8, k=1) + np.eye(8, k=-1),
    "Wilkinson": np.diag(abs(PLACE - 3.5)) + np.eye(8, k=1) + np.eye(8, k=-1),
    "kernel": np.exp(-0.2 * (PLACE[:, None] - PLACE) ** 2),
}
GENERAL: dict[str, np.ndarray] = {
    **SYMMETRIC,
    "not symmetric": matrix((8, 8), "float64"),
    "rows in a circle": np.roll(np.eye(8), 1, 0),
    "nilpotent": np.eye(8, k=1),
    "Jordan": np.eye(8) + np.eye(8, k=1),
    "skew": np.triu(TINY, 1) - np.triu(TINY, 1).T,
    "orthogonal": np.linalg.qr(matrix((8, 8), "float64"))[0],
    "rows of all sizes": 10.0 ** -PLACE[:, None] * matrix((8, 8), "float64"),
}


def check_eigen(a: np.ndarray) -> simultaneous.Eigen:
    found: simultaneous.Eigen = jax.jit(simultaneous.eigenvalues_and_vectors)(a)
    assert found.good
    rows, values = np.asarray(found.rows), np.asarray(found.values)
    assert_unitary(adjoint(rows), UNITS)
    assert_equal(wide(a) @ adjoint(rows), adjoint(rows) * wide(values)[..., None, :], a, UNITS)
    return found


def check_singular(a: np.ndarray) -> simultaneous.Singular:
    found: simultaneous.Singular = jax.jit(simultaneous.singular_values_and_vectors)(a)
    assert found.good
    left, right, values = (np.asarray(x) for x in (found.left, found.right, found.values))
    assert_unitary(adjoint(left), UNITS)
    assert_unitary(adjoint(right), UNITS)
    n = a.shape[-1]
    product = adjoint(left)[..., :n] * wide(values)[..., None, :] @ wide(right)
    assert_equal(product, a, a, UNITS)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_symmetric_matrices(dtype: str) -> None:
    """All of one size, so that they compile once."""
    for a in SYMMETRIC.values():
        check_eigen(np.tril(a).astype(dtype) + np.tril(a, -1).T.astype(dtype))


@pytest.mark.wide
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_general_matrices(dtype: str) -> None:
    for a in GENERAL.values():
        check_singular(a.astype(dtype))


@pytest.mark.wide
def test_large_matrices_with_a_bound_of_the_angles() -> None:
    """Without the bound, 50 steps do not suffice for the first one."""
    place = np.arange(64)
    clusters = np.where(place < 32, 1, 2) + 1e-15 * place
    toeplitz = 1 / (1 + abs(place[:, None] - place))
    for a in [toeplitz, with_eigenvalues(*clusters), np.eye(64)[::-1] + 1e-5 * toeplitz]:
        check_singular(a)


@pytest.mark.parametrize("size", [13, simultaneous.LEAST_BOUNDED])
def test_equal_values_where_the_form_of_a_step_changes(size: int) -> None:
    """Left and right vectors of equal values turn by exactly the same angles."""
    place = np.arange(size)
    values = with_eigenvalues(*(np.where(place % 2, 1, -1) + 1e-5 * place))
    for a in [values, np.linalg.qr(matrix((size, size), "float64"))[0]]:
        check_singular(a.astype(np.float32))


@pytest.mark.parametrize("columns", [3, pytest.param(5, marks=pytest.mark.wide)])
def test_matrices_with_more_rows_than_columns(columns: int) -> None:
    """The unit vectors of the missing columns do not mix with the others."""
    for a in GENERAL.values():
        check_singular(a[:, :columns].copy())
        check_singular(a[:, -columns:].copy())


@pytest.fixture
def traces() -> Iterator[None]:
    """JAX keeps the traces of functions, and with them the module's numbers."""
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.mark.wide
@pytest.mark.usefixtures("traces")
def test_matrices_that_need_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are divided instead."""
    monkeypatch.setattr(simultaneous, "MOST_STEPS", 2)
    a = hermitian((5, 5), "float64")
    assert not simultaneous.eigenvalues_and_vectors(jnp.array(a)).good
    assert not simultaneous.singular_values_and_vectors(jnp.array(a)).good
    v, w = (np.asarray(x) for x in eigh(jnp.array(a), lower=True))
    assert_equal(a @ v, v * w, a)
    u, s, vh = (np.asarray(x) for x in svd(jnp.array(a), full_matrices=False))
    assert_equal(u * s @ vh, a, a)
    assert_equal(np.asarray(singular_values(jnp.array(a))), s, a)


@pytest.mark.parametrize(
    ("shape", "suits"),
    [((5, 5), True), ((3, 32, 2), True), ((33, 5), False), ((5, 33), False), ((5, 1), False)],
)
def test_sizes_that_are_rotated(shape: tuple[int, ...], suits: bool) -> None:
    assert simultaneous.suits(jnp.zeros(shape), 32) == suits


@pytest.mark.wide
@pytest.mark.parametrize(("function", "most"), [(jnp.linalg.eigh, 34), (jnp.linalg.svd, 46)])
def test_the_loop_is_short(function: Callable[..., object], most: int) -> None:
    """Its cost is that of its nodes."""

    def longest(graph: object) -> int:
        loops = [node for node in graph.node if node.op_type == "Loop"]  # type: ignore[attr-defined]
        return max(len(node.attribute[0].g.node) for node in loops)

    model = hlo2onnx.translate(text_of(function, hermitian((8, 8), "float32"))).model_proto
    assert longest(model.graph) <= most
