"""Schur and Hessenberg forms of any square matrices: gees and gehrd calls."""

from __future__ import annotations

from typing import Any

import jax
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from factors import (
    adjoint,
    assert_equal,
    assert_nodes_do_not_depend_on_the_size,
    assert_poison_stays,
    assert_unitary,
    factors,
    nodes_of,
    product,
)
from jax.lax import linalg
from matrices import REAL, like_jax, matrix

import hlo2onnx
from dialect_handlers.custom_calls.lapack.factorizations import hessenberg_results as reduction

pytestmark = pytest.mark.wide

SHAPES = [(0, 0), (1, 1), (2, 2), (3, 3), (6, 6), (33, 33), (2, 2, 4, 4), (0, 3, 3)]
SIX = matrix((6, 6), "float64")


def schur(a: jax.Array) -> Any:
    """T and Z."""
    return linalg.schur(a)


def check(a: np.ndarray, units: float = 10) -> None:
    """A = Z T Z^H; T is triangular, or standardized blocks of 2 x 2 are on its diagonal."""
    t, z = factors(schur, a)
    assert_unitary(z, units)
    assert_equal(product(z, t, adjoint(z)), a, a, units)
    below = np.diagonal(t, -1, -2, -1)
    assert (np.tril(t, -2) == 0).all()
    if a.dtype.kind == "c":
        assert (below == 0).all()
        return
    main, above = (np.diagonal(t, offset, -2, -1) for offset in (0, 1))
    starts = below != 0
    assert not (starts[..., 1:] & starts[..., :-1]).any(), "two blocks overlap"
    assert (main[..., 1:][starts] == main[..., :-1][starts]).all()
    assert (np.sign(above)[starts] == -np.sign(below)[starts]).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_real(shape: tuple[int, ...]) -> None:
    check(matrix(shape, "float64"))


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (5, 5), (3, 4, 4)])
def test_complex(shape: tuple[int, ...]) -> None:
    check(matrix(shape, "complex64"))


BLOCKS = {
    "two real ones": [[1.0, 2], [3, -1]],
    "a pair": [[1.0, 2], [-3, -1]],
    "an equal diagonal": [[1.0, 2], [-3, 1]],
    "lower": [[1.0, 0], [2, 3]],
    "lower, equal": [[1.0, 0], [2, 1]],
    "nearly equal": [[1.0, 1e-9], [1e-9, 1 + 1e-9]],
    "nearly real": [[1.0, 2], [-1e-16, 1]],
    "double": [[2.0, 1], [-1, 0]],
    "like signs": [[1.0, 1], [1e-14, 1]],
    "zeros": [[0.0, 0], [0, 0]],
    "huge": [[1e300, 2e300], [-3e300, -1e300]],
    "tiny": [[1e-300, 2e-300], [-3e-300, -1e-300]],
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str) -> None:
    check(np.array(BLOCKS[name]))


SPECIAL: dict[str, np.ndarray] = {
    "zeros": 0 * SIX,
    "identity": np.eye(6),
    "diagonal": np.diag([3.0, -1, 2, 2, 0, 5]),
    "upper triangle": np.triu(SIX),
    "lower triangle": np.tril(SIX),
    "permuted triangle": np.triu(SIX)[[3, 1, 4, 0, 5, 2]][:, [3, 1, 4, 0, 5, 2]],
    "cycle": np.roll(np.eye(6), 1, axis=0),
    "rotations": np.kron(np.eye(3), [[0.0, 1], [-1, 0]]),
    "symmetric": SIX + SIX.T,
    "Jordan": np.eye(6) + np.eye(6, k=1),
    "nilpotent": np.eye(6, k=-1),
    "repeated": np.linalg.inv(SIX) @ np.diag([1.0, 1, 1, 2, 2, 3]) @ SIX,
    "rank one": np.ones((6, 6)),
    "huge": 1e30 * SIX,
    "tiny": 1e-30 * SIX,
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_special(dtype: str, name: str) -> None:
    check(SPECIAL[name].astype(dtype))


def test_a_triangle_is_its_own_form() -> None:
    """Exactly."""
    a = np.triu(SIX).astype(np.float32)
    t, z = factors(schur, a)
    np.testing.assert_array_equal(t, a)
    np.testing.assert_array_equal(z, np.eye(6))


def test_without_vectors() -> None:
    def values(a: jax.Array) -> Any:
        return linalg.schur(a, compute_schur_vectors=False)

    a = matrix((2, 5, 5), "float64")
    [t] = factors(values, a)
    assert_equal(t, factors(schur, a)[0], a)


def test_the_complex_form_of_a_real_matrix() -> None:
    def form(a: jax.Array) -> Any:
        return jsl.schur(a, output="complex")

    t, z = factors(form, SIX)
    assert np.abs(np.tril(t, -1)).max() < 1e-13
    assert_unitary(z)
    assert_equal(product(z, t, adjoint(z)), SIX, SIX)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_nan_makes_all_of_one_matrix_nan(dtype: str, value: float) -> None:
    """Of infinities LAPACK's Z is arbitrary."""
    assert_poison_stays(schur, matrix((3, 4, 4), dtype), (1, 0, 2), value)


@pytest.mark.parametrize("dtype", REAL)
def test_large(dtype: str) -> None:
    check(matrix((100, 100), dtype), units=3)


def test_nodes_do_not_depend_on_the_size() -> None:
    assert_nodes_do_not_depend_on_the_size(schur, 1000)


def test_sorting_is_refused() -> None:
    """JAX has no way to ask for it; a module may."""
    with jax.enable_x64(True):
        text = jax.jit(schur).lower(SIX).as_text()
    assert "sort = 78" in text
    with pytest.raises(hlo2onnx.TranslationError, match="sort"):
        hlo2onnx.translate(text.replace("sort = 78", "sort = 83"))


# --- Hessenberg forms ---------------------------------------------------------------------------


def hessenberg(a: jax.Array) -> Any:
    """H with the reflections below it, and taus."""
    return linalg.hessenberg(a)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (6, 6), (2, 3, 4, 4)])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_hessenberg(dtype: str, shape: tuple[int, ...]) -> None:
    """The same reflections as LAPACK's."""
    like_jax(hessenberg, matrix(shape, dtype)).close()


@pytest.mark.parametrize("calc_q", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_hessenberg_of_scipy(dtype: str, calc_q: bool) -> None:
    def form(a: jax.Array) -> Any:
        return jsl.hessenberg(a, calc_q=calc_q)

    a = matrix((40, 40), dtype)
    run = like_jax(form, a)
    h, *q = run.actual[0]
    assert (np.tril(h, -2) == 0).all()
    if q:
        assert_unitary(q[0])
        assert_equal(product(q[0], h, adjoint(q[0])), a, a)
    assert_equal(h, run.expected[0], a, 100)


def with_q(a: jax.Array) -> Any:
    """H and Q."""
    return jsl.hessenberg(a, calc_q=True)


@pytest.mark.parametrize("name", SPECIAL)
def test_hessenberg_of_special_matrices(name: str) -> None:
    a = SPECIAL[name]
    h, q = factors(with_q, a)
    assert (np.tril(h, -2) == 0).all()
    assert_unitary(q)
    assert_equal(product(q, h, adjoint(q)), a, a)


def test_hessenberg_of_some_rows_and_columns() -> None:
    """Those outside of low .. high, from 1, are triangular: LAPACK leaves them out."""
    a = np.triu(SIX)
    a[1:4, 1:4] = SIX[1:4, 1:4]
    packed, taus, _ = factors(_middle, a)
    h = np.triu(packed, -1)
    np.testing.assert_array_equal(taus[[0, 3, 4]], 0)
    np.testing.assert_array_equal(h[[2, 3, 4, 5], [0, 1, 3, 4]][[0, 1, 2, 3]], 0)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(h)), np.sort(np.linalg.eigvals(a)))


def _middle(a: jax.Array) -> Any:
    return reduction(a, low=1, high=4)


def test_hessenberg_keeps_nan_out_of_other_matrices() -> None:
    a = matrix((3, 4, 4), "float64")
    clean = factors(hessenberg, a)
    a[1, 2, 0] = np.nan
    for got, want in zip(factors(hessenberg, a), clean, strict=True):
        np.testing.assert_array_equal(got[[0, 2]], want[[0, 2]])
        assert np.isnan(got[1]).any()


def test_nodes_of_hessenberg_do_not_depend_on_the_size() -> None:
    counts = nodes_of(hessenberg, 40, 300, 960)
    assert counts[1] == counts[2] < 150
    assert counts[0] <= counts[1], "small tables of constants are computed beforehand"
