"""The rule on products of groups, in programs of JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_size import every_size
from jax import lax

from hlo2onnx import translate

RNG = np.random.default_rng(0)
X, W = (RNG.normal(size=dims).astype(np.float32) for dims in ((6, 3), (8, 3, 5)))


def experts(x: jax.Array, router: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """A mixture of experts, two for each token, as MaxText and tunix write it."""
    weights, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    order = jnp.argsort(chosen.reshape(-1))
    sizes = jnp.bincount(chosen.reshape(-1), length=up.shape[0])
    hidden = jax.nn.silu(lax.ragged_dot(x[order // 2], up, sizes))
    mixed = lax.ragged_dot(hidden, down, sizes)[jnp.argsort(order)]
    return (mixed.reshape(-1, 2, x.shape[1]) * weights[..., None]).sum(1)


def test_experts() -> None:
    """Each token meets its own experts alone."""
    nodes = every_size(experts, "n, 3", "3, 8", "8, 3, 5", "8, 5, 3").report.nodes
    assert nodes["MatMul"] == 1 + 2 * 8 and nodes["And"] + nodes["Loop"] == 0


@pytest.mark.parametrize("rows", ["n", "6"])
def test_any_sizes(rows: str) -> None:
    """Also those whose sum is less or more than the rows."""
    program = every_size(lax.ragged_dot, f"{rows}, 3", "8, 3, 5", "int32[8]")
    assert program.report.nodes["Split"] == 1 and program.report.nodes["Where"] == 0
    for sizes in ([0, 0, 0, 0], [6, 0, 0, 0], [1, 0, 2, 1], [4, 4, 0, 3], [0, 0, 0, 6]):
        assert program.verify(X, W, np.array([*sizes, 0, 1, 0, 0], np.int32))


def test_negative_sizes_are_refused() -> None:
    program = translate(lax.ragged_dot, X, W, np.zeros(8, np.int32))
    with pytest.raises(Exception, match="Split"):
        program(X, W, np.array([3, -1, 2, 2, 0, 0, 0, 0], np.int32))


def test_nan_of_another_group() -> None:
    """It stays where NaN is XLA's."""
    program = translate(lax.ragged_dot, X, W, np.zeros(8, np.int32), nan="xla")
    assert program.report.nodes["Split"] == 0


def masked(starts: str, *, fill: float = 0.0, upto: bool = False) -> object:
    def program(x: jax.Array, w: jax.Array, sizes: jax.Array) -> jax.Array:
        rows = jnp.arange(6, dtype=jnp.int32)[None, :, None]
        ends = jnp.cumsum(sizes)
        firsts = {"sizes": ends - sizes, "others": ends - 2, "reversed": ends[::-1] - sizes}
        first, last = firsts[starts][:, None, None], ends[:, None, None]
        is_in = (first <= rows) & ((rows <= last) if upto else (rows < last))
        return jnp.einsum("gmk,gkn->mn", jnp.where(is_in, x, fill), w)

    return program


@pytest.mark.parametrize(
    ("program", "is_right"),
    [
        (masked("sizes"), True),
        (masked("others"), False),
        (masked("reversed"), False),
        (masked("sizes", fill=1), False),
        (masked("sizes", upto=True), False),
    ],
)
def test_masks(program: object, is_right: bool) -> None:
    sizes = np.array([1, 2, 0, 2, 0, 1, 0, 0], np.int32)
    found = translate(program, X, W, sizes)  # type: ignore[call-overload]
    assert (found.report.nodes["Split"] == 1) == is_right
    assert found.verify(X, W, sizes)
