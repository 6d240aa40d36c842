"""The loop that JAX writes to turn the row exchanges of an LU factorization into a permutation.

The factorization knows the permutation already. JAX has no call for it on the CPU: it lowers
`lu_pivots_to_permutation` to a loop right after the factorization.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import jax
import numpy as np
import onnx_ir as oir
from jax.lax import linalg
from jaxlib.mlir import ir

from hlo2onnx.ir.values import shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.mlir.functions import functions_of
from hlo2onnx.mlir.normalize import normalized
from hlo2onnx.mlir.same_computation import same_regions
from hlo2onnx.sources.jax_lowered import from_lowered

_ORDER = "hlo2onnx.row_order"
"""Key of `onnx_ir.Value.meta` of pivots: the permutation of the rows that the exchanges make."""


def note_order(pivots: oir.Value, order: oir.Value) -> None:
    """Notes the permutation of the rows that the exchanges of a factorization make.

    Args:
        pivots: i32[..., k]: step i exchanges row i with row `pivots[..., i] - 1`.
        order: i32[..., m]: the numbers of the rows after all exchanges.
    """
    pivots.meta[_ORDER] = order


def known_order(em: Emitter, op: Op, initial: Sequence[Parts]) -> list[Parts] | None:
    """The results of a `while` that applies the exchanges of a factorization to 0, 1, 2, ...

    Returns:
        None for other loops.
    """
    found = [_order(em, parts) for parts in initial]
    places = [k for k, order in enumerate(found) if order is not None]
    if len(places) != 1 or not all(len(parts) == 1 for parts in initial):
        return None
    (place,) = places
    pivots, order = initial[place][0], found[place]
    assert order is not None
    shape = tuple(dim for dim in shape_of(pivots) if isinstance(dim, int))
    rows = shape_of(order)[-1]
    if len(shape) != len(shape_of(pivots)) or not isinstance(rows, int):
        return None
    if not any(same_regions(op.operation, loop) for _, loop in _loops(shape, rows)):
        return None
    results: list[Parts] = []
    for k, (value,) in enumerate(initial):
        content = em.facts.constant(value)
        if k == place:
            results.append((value,))
        elif content is None:
            return None
        elif content.ndim == 0 and content == 0:
            # The counter: the loop makes one trip for each exchange.
            results.append((em.const(content.dtype.type(shape[-1])),))
        elif content.shape[-1:] == (rows,) and (content == np.arange(rows)).all():
            results.append((order,))
        else:
            return None
    return results


def _order(em: Emitter, parts: Parts) -> oir.Value | None:
    """The permutation that `note_order` noted, for the same pivots counted from 0.

    JAX subtracts 1 from the pivots, which LAPACK counts from 1.
    """
    node = parts[0].producer() if len(parts) == 1 else None
    if node is None or node.op_type != "Sub":
        return None
    pivots, one = node.inputs
    content = em.facts.constant(one) if one is not None else None
    if pivots is None or content is None or not (content == 1).all():
        return None
    order: oir.Value | None = pivots.meta.get(_ORDER)
    return order


@lru_cache(maxsize=64)
def _loops(shape: tuple[int, ...], rows: int) -> list[tuple[ir.Operation, ir.Operation]]:
    """JAX's `while` for pivots of this shape, with counters of 32 and of 64 bits.

    Returns:
        Pairs of the module, which must stay alive, and the loop in it.
    """
    function = jax.jit(partial(linalg.lu_pivots_to_permutation, permutation_size=rows))
    found = []
    for x64 in (False, True):
        with jax.enable_x64(x64):
            traced = function.trace(jax.ShapeDtypeStruct(shape, np.int32))
            source = from_lowered(traced.lower(lowering_platforms=("cpu",)))
        module = normalized(source.module)
        (main,) = functions_of(module)["main"].regions[0].blocks
        found += [(module, one.operation) for one in main.operations if one.name == _WHILE]
    return found


_WHILE = "stablehlo.while"
