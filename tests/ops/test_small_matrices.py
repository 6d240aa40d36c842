"""Factors of small matrices that are written out by elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import linalg
from matrices import definite, dominant, hermitian, like_jax, matrix, text_of

import hlo2onnx
from dialect_handlers.common.linalg import written_out

BATCHES = [(), (1,), (5,), (2, 3), (0,)]


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.wide
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rotations(dtype: str, lower: bool, batch: tuple[int, ...]) -> None:
    unit = float(np.finfo(dtype).eps)
    for n, scale in product((2, 3, 4), (1, 1e36, 1e-36)):
        a = (scale * hermitian((*batch, n, n), "float64")).astype(dtype)
        read = (np.tril if lower else np.triu)(a)
        v, w = (np.asarray(x, np.float64) for x in written_out.eigh(jnp.array(read), lower=lower))
        size = np.abs(a).max(initial=0).astype(np.float64)
        np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=20 * unit * size)
        np.testing.assert_allclose(
            v.swapaxes(-1, -2) @ v, np.broadcast_to(np.eye(n), v.shape), atol=20 * unit
        )
        assert (np.diff(w) >= 0).all()


@pytest.mark.wide
@pytest.mark.parametrize("values", [(2, 1, 2, 1), (0, 0, -1, -1), (3, 3, 3, 1), (1, 2, 3, 4)])
def test_vectors_of_diagonal_matrices(values: tuple[int, ...]) -> None:
    """LAPACK's order of equal eigenvalues."""
    a = np.diag(np.array(values, np.float64))
    v, w = written_out.eigh(jnp.array(a), lower=True)
    want_v, want_w = linalg.eigh(a)
    np.testing.assert_array_equal(w, want_w)
    np.testing.assert_array_equal(v, want_v)


def operators(function: object, *arguments: np.ndarray) -> Counter[str]:
    nodes: Counter[str] = Counter(hlo2onnx.translate(text_of(function, *arguments)).report.nodes)  # type: ignore[arg-type]
    return nodes


LOOPS = {"If", "Loop", "Scan", "MatMul", "Gemm"}


def test_a_batch_of_systems_takes_no_loop() -> None:
    a, b = dominant((50, 3, 3), "float32"), matrix((50, 3, 1), "float32")
    nodes = operators(jnp.linalg.solve, a, b)
    assert not LOOPS & set(nodes) and nodes.total() <= 100
    like_jax(jnp.linalg.solve, a, b).close()


def test_a_batch_of_factors_takes_no_loop() -> None:
    a = definite((50, 6, 6), "float32")
    assert not LOOPS & set(operators(partial(jnp.linalg.cholesky, symmetrize_input=False), a))


@pytest.mark.wide
def test_singular_matrices_of_a_batch() -> None:
    """LAPACK's infinities, NaN and info, each for its own matrix."""
    a = dominant((4, 3, 3), "float64")
    a[1] = 0
    a[2, 1] = a[2, 0]
    a[3, 0, 0] = np.nan
    like_jax(jnp.linalg.inv, a[:1]).close()
    like_jax(lambda x: linalg.lu(x)[:2], a[:3]).close()
    like_jax(lambda x: linalg.cholesky(x, symmetrize_input=False), a[:3] - 7 * np.eye(3)).close()
    found = np.asarray(hlo2onnx.translate(text_of(jnp.linalg.inv, a))(a))
    assert np.isfinite(found[0]).all() and not np.isfinite(found[1:]).all((1, 2)).any()
