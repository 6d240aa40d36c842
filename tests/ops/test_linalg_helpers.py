"""Parts of the decompositions, in plain JAX: each against its definition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matrices import matrix

from dialect_handlers.common.linalg import condensed_forms
from dialect_handlers.common.linalg.blocks import scaled, triangle_inverse
from dialect_handlers.common.linalg.divide_and_conquer import bidiagonal_svd
from dialect_handlers.common.linalg.schur import scales, triangular_parts_aside
from dialect_handlers.common.linalg.secular_equation import Groups, find_roots, find_vectors
from dialect_handlers.common.linalg.svd import fitted, svd
from dialect_handlers.common.linalg.triangular import by_blocks
from dialect_handlers.common.linalg.tridiagonal import _smaller_to_scale

# Compiled as a whole: op by op they take ten times as long.
BIDIAGONAL_SVD = jax.jit(bidiagonal_svd, static_argnames="left")
SVD = jax.jit(partial(svd, full_matrices=False))
FIND_ROOTS = jax.jit(find_roots)

LARGE = [pytest.param(n, marks=pytest.mark.wide) for n in (32, 96, 97, 127, 200)]


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


SMALLEST = np.sqrt(np.finfo(np.float64).tiny) / np.finfo(np.float64).eps


@pytest.mark.parametrize(
    ("largest", "is_extreme"),
    [
        (1.0, False),
        (0.0, False),
        (SMALLEST * 1.01, False),
        (SMALLEST * 0.99, True),
        (0.99 / SMALLEST, False),
        (1.01 / SMALLEST, True),
        (1e-300, True),
        (1e300, True),
    ],
)
@pytest.mark.parametrize("unit", [1, -1, 1j])
def test_extreme_matrices_are_scaled(largest: float, is_extreme: bool, unit: complex) -> None:
    a = np.array([[0.25, -0.5], [0, 1]]) * unit * largest
    matrix, factor = scaled(jnp.array(a))
    assert factor == (largest if is_extreme else 1)
    np.testing.assert_allclose(matrix, a / (largest if is_extreme else 1), rtol=1e-15)


@pytest.mark.parametrize("item", [np.nan, np.inf])
def test_matrices_that_are_not_finite(item: float) -> None:
    assert np.isnan(scaled(jnp.array([[1.0, item], [0, 1]]))[0]).all()


@pytest.mark.wide
@pytest.mark.parametrize(
    ("poles", "z"),
    [
        ([[0, 1, 3, 3.5]], [[0.3, -2, 1e-3, 1]]),
        ([[0, 1e-3, 1]], [[1, 1, 1]]),
        ([[0.0]], [[-2.0]]),
        ([[0, 2], [0, 1, 5]], [[1, 4], [0.5, 1e-6, 3]]),
    ],
)
def test_roots_of_the_secular_equation(poles: list[list[float]], z: list[list[float]]) -> None:
    """The squares are eigenvalues of diag(poles^2) + z z^T, for each of several matrices."""
    sizes = [len(some) for some in poles]
    together = np.kron(np.eye(len(sizes)), 1).repeat(sizes, 0).repeat(sizes, 1).astype(bool)
    number = np.repeat(np.arange(len(sizes)), sizes)
    ours, others = (np.concatenate(some) / 8 for some in (poles, z))
    matrices = [np.diag(np.square(p)) + np.outer(v, v) for p, v in zip(poles, z, strict=True)]
    wanted = np.concatenate([np.sqrt(np.linalg.eigvalsh(matrix)) for matrix in matrices]) / 8
    distances = np.where(together, np.square(ours)[:, None] - np.square(wanted), -1)
    kinds = [Groups.of(jnp.array(number)[None], np.dtype("float64"))]
    if len(sizes) == 1:
        kinds.append(Groups.of_one(jnp.ones((1, sizes[0]), bool)))
    for groups in kinds:
        found = FIND_ROOTS(jnp.array(ours)[None], jnp.array(others)[None], groups)
        np.testing.assert_allclose(found.values[0, 0], wanted, rtol=1e-8)
        np.testing.assert_allclose(found.distances[0], distances, rtol=1e-6, atol=1e-14)


@pytest.mark.wide
@pytest.mark.parametrize("of_one", [False, True])
def test_elements_outside_of_secular_equations(of_one: bool) -> None:
    """They change no other vector. Their own ones are those of the unit matrix."""
    poles, z = np.array([0, 0.2, 0.7, 0.7, 0.1]), np.array([0.3, -0.5, 0.01, 0.9, 0.0])
    active = jnp.array([[True, True, True, False, False]])
    number = jnp.where(active, 3, -1)
    groups = Groups.of_one(active) if of_one else Groups.of(number, np.dtype("float64"))
    roots = FIND_ROOTS(jnp.array(poles)[None], jnp.array(z)[None], groups)
    u, v = find_vectors(roots, jnp.array(z)[None], groups, left=True)
    assert u is not None
    matrix = np.diag(poles * [1, 1, 1, 0, 0])
    matrix[0, :3] = z[:3]
    values = np.where(active[0], roots.values[0, 0], 0)
    np.testing.assert_allclose(np.asarray(u)[0].T @ matrix @ v[0], np.diag(values), atol=1e-14)
    for vectors in (u[0], v[0]):
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-14)
        np.testing.assert_array_equal(vectors[:, 3:], np.eye(5)[:, 3:])


@pytest.mark.wide
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("n", [1, 2, 31, *LARGE])
def test_bidiagonal_matrices(n: int, left: bool) -> None:
    """With zeros that are not those behind the matrix."""
    rng = np.random.default_rng(n)
    d, e = rng.normal(size=n), rng.normal(size=n - 1)
    d[n // 2 :: 3] = 0
    e[::5] = 0
    u, v = (np.asarray(x) for x in BIDIAGONAL_SVD(d, e, left=left))
    b = np.diag(d) + np.diag(e, 1)
    limit = 10 * n * np.finfo(np.float64).eps
    values = np.linalg.norm(v @ b.T, axis=1)
    wanted = np.linalg.svd(b, compute_uv=False)
    np.testing.assert_allclose(np.sort(values)[::-1], wanted, atol=limit * wanted[0])
    np.testing.assert_allclose(v @ v.T, np.eye(n), atol=limit)
    assert u.shape == (n, n if left else 0)
    if left:
        np.testing.assert_allclose(u @ u.T, np.eye(n), atol=limit)
        off = (u @ b @ v.T)[~np.eye(n, dtype=bool)]
        assert abs(off).max(initial=0) <= limit * wanted[0]


@pytest.mark.wide
@pytest.mark.parametrize("n", [9, 70])
@pytest.mark.parametrize("least", [-19, -22])
def test_bidiagonal_matrices_of_elements_whose_squares_are_denormal(n: int, least: int) -> None:
    """The vectors are as orthogonal as ever."""
    rng = np.random.default_rng(n)
    d, e = (10.0 ** rng.uniform(least, least + 4, k) for k in (n, n - 1))
    d[0] = 1
    single = [jnp.array(x, jnp.float32) for x in (d, e)]
    for vectors in map(np.asarray, BIDIAGONAL_SVD(*single, left=True)):
        limit = 10 * n * np.finfo(np.float32).eps
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(n), atol=limit)


@pytest.mark.wide
def test_roots_next_to_poles() -> None:
    """One is so near that the square of its inverse distance overflows."""
    n, rng = 98, np.random.default_rng(14)
    d, e = ((10.0 ** rng.uniform(-5, 0, k)).astype(np.float32) for k in (n, n - 1))
    b = np.diag(d) + np.diag(e, 1)
    u, v = map(np.asarray, BIDIAGONAL_SVD(d, e, left=True))
    product = u.astype(np.float64) @ b @ v.T
    limit = 0.3 * n * np.finfo(np.float32).eps
    np.testing.assert_allclose(product, np.diag(np.diag(product)), atol=limit)


@pytest.mark.wide
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("n", [3, *LARGE])
def test_reductions_in_parts(n: int, dtype: str) -> None:
    """T = Q^H A Q and B = Q^H A P, with columns cut off in between or not."""
    a = matrix((n + 2, n), dtype)
    limit = 4 * n * np.finfo(np.float64).eps
    d, e, q, p = condensed_forms.bidiagonalize(jnp.array(a))
    unit = jnp.eye(n, dtype=dtype)
    b = np.pad(np.diag(d) + np.diag(e, 1), [(0, 2), (0, 0)]).astype(dtype)
    product = q.times(jnp.array(b)) @ p.times(unit, shift=1).conj().T
    np.testing.assert_allclose(product, a, atol=limit * np.linalg.norm(a, 2))
    s = a[:n] + a[:n].conj().T
    d, e, q = condensed_forms.tridiagonalize(jnp.array(s))
    t = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    whole = np.asarray(q.times(unit, shift=1))
    np.testing.assert_allclose(whole.conj().T @ whole, np.eye(n), atol=limit)
    np.testing.assert_allclose(whole @ t @ whole.conj().T, s, atol=limit * np.linalg.norm(s, 2))


@pytest.mark.costly
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("n", [3, 40, 150])
def test_triangular_systems_by_blocks(n: int, lower: bool, unit: bool) -> None:
    rng = np.random.default_rng(0)
    diagonal = np.ones(n) if unit else rng.uniform(1, 2, n)
    t = np.tril(rng.normal(size=(n, n)) / n, -1) + np.diag(diagonal)
    t = t if lower else t.T
    b = rng.normal(size=(n, 2))
    x = by_blocks(jnp.array(t), jnp.array(b), lower=lower, unit=unit)
    np.testing.assert_allclose(t @ x, b, atol=1e-12)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 5, 5), (8, 8)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_inverses_of_triangles(dtype: str, shape: tuple[int, ...], upper: bool, unit: bool) -> None:
    rng = np.random.default_rng(0)
    t = np.tril(rng.normal(size=shape) + 1j * rng.normal(size=shape), -1)
    t = t + (1 if unit else 2 - 1j) * np.eye(shape[-1])
    t = (t if dtype == "complex128" else t.real).astype(dtype)
    t = t.swapaxes(-1, -2) if upper else t
    x = triangle_inverse(jnp.array(t), unit=unit)
    np.testing.assert_allclose(x @ t, np.broadcast_to(np.eye(shape[-1]), shape), atol=1e-12)


@pytest.mark.parametrize(
    ("left", "scale", "below", "comes_first"),
    [
        ([0.0, 1, 1], 2.0, [0.5, 1, 1], True),
        ([0.0, 1, 1], 2.0, [0.0, 1, 1], False),
        ([2.0, 1, 1], 4.0, [1.0, 1, 0], False),
        ([1.0, 1, 1], 3.0, [1.0, 1, 0], True),
        ([1.0, 1, 1], 3.0, [-1.0, 1, 0], True),
        ([1.0, 1, 0], 2.0, [1.0, 1, 1], False),
    ],
)
def test_rows_in_proportion(
    left: list[float], scale: float, below: list[float], comes_first: bool
) -> None:
    first, own = _smaller_to_scale(jnp.array(left), jnp.array(below), jnp.array(scale))
    assert bool(first) == comes_first
    assert own == np.abs(below).sum()


@pytest.mark.wide
def test_triangular_parts_are_set_aside() -> None:
    triangle = np.array([[1, 0, 4], [2, 3, 5], [0, 0, 6.0]])
    order, coupled, _ = triangular_parts_aside(jnp.array(triangle))
    permuted = triangle[np.ix_(order, order)]
    np.testing.assert_array_equal(permuted, np.triu(permuted))
    assert sorted(np.asarray(order)) == [0, 1, 2]
    assert not np.asarray(coupled).any()
    full = np.ones((3, 3))
    order, coupled, _ = triangular_parts_aside(jnp.array(full))
    np.testing.assert_array_equal(order, range(3))
    assert np.asarray(coupled).all()
    mixed = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1.0]])
    order, coupled, _ = triangular_parts_aside(jnp.array(mixed))
    assert np.asarray(coupled).tolist() == [True, True, False, False]
    permuted = mixed[np.ix_(order, order)]
    assert not permuted[2:, :2].any()


def test_rows_are_scaled_to_their_columns() -> None:
    rng = np.random.default_rng(0)
    powers = 2.0 ** np.array([0, 9, -12, 4])
    a = rng.uniform(1, 2, (4, 4)) * powers[:, None] / powers
    d = np.asarray(scales(jnp.array(a), jnp.ones(4, bool)))
    np.testing.assert_allclose(np.log2(d), np.round(np.log2(d)), atol=1e-12)
    b = a * d / d[:, None]
    ratios = np.linalg.norm(b, axis=0) / np.linalg.norm(b, axis=1)
    assert ((ratios > 0.5) & (ratios < 2)).all()
    alone = np.asarray(scales(jnp.array(a), jnp.zeros(4, bool)))
    np.testing.assert_array_equal(alone, np.ones(4))


def _graded(m: int, n: int, condition: float) -> np.ndarray:
    """A matrix with singular values from 1 to 1 / condition, f32[m, n], m >= n."""
    rng = np.random.default_rng(0)
    q, p = (np.linalg.qr(rng.normal(size=(extent, n)))[0] for extent in (m, n))
    return (q * np.geomspace(1, 1 / condition, n) @ p.T).astype(np.float32)


@pytest.mark.parametrize("m", [9, pytest.param(6, marks=pytest.mark.wide)])
def test_left_vectors_are_rotated_to_fit_the_right_ones(m: int) -> None:
    u, s, v = np.linalg.svd(_graded(m, 6, 1e3).astype(np.float64), full_matrices=False)
    noise = 1e-3 * np.random.default_rng(1).normal(size=u.shape)
    wrong, triangle = np.linalg.qr(u + noise)
    wrong *= np.sign(np.diag(triangle)) * [1, 1, -1, 1, 1, 1]
    found = np.asarray(jax.jit(fitted)(jnp.array(wrong.T, "f4"), jnp.array(u * s, "f4")))
    np.testing.assert_allclose(found.T @ v, u @ v, atol=1e-4)


@pytest.mark.wide
@pytest.mark.parametrize("condition", [1e5, 1e7])
@pytest.mark.parametrize("shape", [(16, 16), (16, 12), (128, 128), (128, 64)])
def test_vectors_of_tiny_singular_values_fit_together(
    shape: tuple[int, int], condition: float
) -> None:
    """U V^T is about as exact as LAPACK's in f32 (NumPy computes in f64)."""
    a = _graded(*shape, condition)
    errors = []
    exact_u, _, exact_v = np.linalg.svd(a.astype(np.float64), full_matrices=False)
    for u, _, v in (SVD(a), jnp.linalg.svd(a, full_matrices=False)):
        found = np.asarray(u, np.float64) @ np.asarray(v, np.float64)
        errors.append(abs(found - exact_u @ exact_v).max())
    assert errors[0] < 3 * errors[1]
