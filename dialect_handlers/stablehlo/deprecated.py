"""Deprecated ops that MLIR does not replace."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


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
