"""Products, factorizations, triangular systems and Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import onnx_ir as oir
from jaxlib.mlir.dialects import stablehlo

from dialect_handlers.common.contraction import Operand, accumulate, complex_product, contract
from dialect_handlers.common.linalg.cholesky import cholesky
from dialect_handlers.common.linalg.triangular import solve_triangular
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.ir.values import rank_of, shape_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

# -- dot_general: any contraction of two tensors, as MatMul -----------------------------------


IGNORES = {
    "precision_config": "XLA computes at full precision on the CPU, whatever it says",
    "algorithm": "XLA ignores it on the CPU: operands keep their precision, sums are exact enough",
}


@handles("stablehlo.dot_general", ignores=IGNORES)
@handles("stablehlo.dot_general", form="complex", ignores=IGNORES)
def dot_general(
    em: Emitter, op: Op, *, dot_dimension_numbers: stablehlo.DotDimensionNumbers
) -> Parts:
    """dot_general(lhs, rhs) -> MatMul, with the Transposes and Reshapes that it needs."""
    numbers = dot_dimension_numbers
    lhs, rhs = (em.parts(operand) for operand in op.operands)
    types = parts_of(op.results[0].type)
    if len(types) != len(lhs):
        raise unsupported("mixed parts")
    readers_perm = _readers_perm(op)

    def contraction(x: oir.Value, y: oir.Value) -> oir.Value:
        return contract(
            em,
            Operand(
                x,
                tuple(numbers.lhs_batching_dimensions),
                tuple(numbers.lhs_contracting_dimensions),
            ),
            Operand(
                y,
                tuple(numbers.rhs_batching_dimensions),
                tuple(numbers.rhs_contracting_dimensions),
            ),
            readers_perm,
        )

    def product(x: oir.Value, y: oir.Value) -> oir.Value:
        return accumulate(em, contraction, x, y, types[0].dtype)

    return complex_product(em, product, lhs, rhs)


def _readers_perm(op: Op) -> tuple[int, ...]:
    """The permutation of a chain of transposes, if only they read the result."""
    perm = tuple(range(len(op.result_shape())))
    reader = op.reader
    while reader is not None and reader.name == "stablehlo.transpose":
        perm = tuple(perm[axis] for axis in reader.attribute("permutation"))
        reader = reader.reader
    return perm


# -- cholesky and triangular_solve ------------------------------------------------------------


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


# -- fft --------------------------------------------------------------------------------------


@handles("stablehlo.fft", form="complex")
def fft(em: Emitter, op: Op, *, fft_type: str, fft_length: Sequence[int]) -> list[Parts]:
    """fft(x) -> a DFT for each transformed axis, the last ones of x.

    RFFT starts with a DFT of reals along the last axis; IRFFT ends with its inverse. One point is
    its own transform, also if it is infinite.
    """
    parts = em.parts(op.operands[0])
    known = zip(op.result_shape(), shape_of(parts[0]), strict=True)
    dims = [own if dim is None else dim for dim, own in known]
    if 0 in dims:
        empty = em.expand(em.scalar_like(0, parts[0]), dims)
        return [(empty,) if fft_type == "IRFFT" else (empty, empty)]
    last = len(dims) - 1
    axes = range(len(dims) - len(fft_length), len(dims))
    if fft_type == "RFFT" and fft_length[-1] == 1:
        parts = (*parts, em.expand(em.scalar_like(0, parts[0]), dims))
    joined = _joined(em, parts)
    if len(parts) == 1:
        joined = em.dft(joined, last, onesided=True)
    if fft_type in ("RFFT", "IRFFT"):
        axes = axes[:-1]
    for axis in reversed(axes):
        if dims[axis] != 1:
            joined = em.dft(joined, axis, inverse=fft_type in ("IFFT", "IRFFT"))
    if fft_type == "IRFFT":
        if fft_length[-1] == 1:
            return [_split(em, joined)[:1]]
        real = em.dft(joined, last, fft_length[-1], inverse=True, onesided=True)
        return [(em.squeeze(real, [rank_of(real) - 1]),)]
    return [_split(em, joined)]


def _joined(em: Emitter, parts: Parts) -> oir.Value:
    """Real and imaginary parts along a new last axis."""
    axis = rank_of(parts[0])
    return em.concat([em.unsqueeze(part, [axis]) for part in parts], axis)


def _split(em: Emitter, x: oir.Value) -> Parts:
    axis = rank_of(x) - 1
    return tuple(em.Gather(x, em.i64(index), axis=axis) for index in (0, 1))


# -- deprecated ops that MLIR does not replace ------------------------------------------------


@handles("stablehlo.einsum", form="any")
def einsum(em: Emitter, op: Op, *, einsum_config: str) -> list[Parts]:
    """einsum(lhs, rhs) -> the contraction that its config spells.

    MLIR turns `unary_einsum(x)` into an einsum of 1 and x.
    """
    return em.through_jax(_einsum, *map(em.parts, op.operands), config=einsum_config)


def _einsum(lhs: jax.Array, rhs: jax.Array, *, config: str) -> jax.Array:
    return jnp.einsum(config, lhs, rhs)


@handles("stablehlo.torch_index_select", form="any")
def torch_index_select(em: Emitter, op: Op, *, dim: int, batch_dims: int) -> list[Parts]:
    """torch_index_select(x, index) -> the slices of x along `dim` at the clamped indices.

    The first `batch_dims` axes of both operands are batch axes.
    """
    operands = map(em.parts, op.operands)
    return em.through_jax(selected, *operands, dim=dim, batch_dims=batch_dims)


def selected(x: jax.Array, index: jax.Array, *, dim: int, batch_dims: int) -> jax.Array:
    """x[..., index, ...], index taking the place of axis `dim`, per batch."""
    take = partial(jnp.take, axis=dim - batch_dims, mode="clip")
    for _ in range(batch_dims):
        take = jax.vmap(take)
    return take(x, index)
