"""cholesky and triangular_solve."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from dialect_handlers.common.linalg.cholesky import cholesky
from dialect_handlers.common.linalg.triangular import solve_triangular
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.cholesky", form="any")
def cholesky_(em: Emitter, op: Op, *, lower: bool = False) -> list[Parts]:
    """cholesky(a) -> the L of L L^H or the U of U^H U, 0 in the other triangle.

    As in XLA a matrix that is not positive semidefinite gives NaN throughout.
    """
    return em.through_jax(factor, em.parts(op.operands[0]), lower=lower)


def factor(a: jax.Array, *, lower: bool) -> jax.Array:
    """The Cholesky factor of a [..., n, n], of which one triangle is read."""
    found, pivots = cholesky(_single(a), lower=lower)
    definite = jnp.all(pivots >= 0, -1)[..., None, None]
    return jnp.where(definite, found, jnp.nan).astype(a.dtype)


@handles("stablehlo.triangular_solve", form="any")
def triangular_solve(
    em: Emitter,
    op: Op,
    *,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: str,
) -> list[Parts]:
    """triangular_solve(a, b) -> X with op(a) X = b, or X op(a) = b."""
    a, b = (em.parts(operand) for operand in op.operands)
    sides = {"left_side": left_side, "lower": lower, "unit_diagonal": unit_diagonal}
    return em.through_jax(solve, a, b, transpose_a=transpose_a, **sides)


def solve(a: jax.Array, b: jax.Array, *, transpose_a: str, **sides: bool) -> jax.Array:
    """`solve_triangular` for matrices of any float type; 16 bits are rounded once, at the end."""
    x = solve_triangular(_single(a), _single(b), transpose_a=transpose_a, **sides)
    return x.astype(b.dtype)


def _single(x: jax.Array) -> jax.Array:
    """Half-precision numbers as f32, others unchanged."""
    return x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
