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

from hlo2onnx.frontend.jax_lowered import from_lowered
from hlo2onnx.frontend.mlir.block_functions import same_regions
from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.frontend.mlir.normalize import normalized
from hlo2onnx.ir.values import static_shape
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op

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
    """The results of a `while` that applies row exchanges to 0, 1, 2, ...

    Returns:
        None for other loops.
    """
    if not all(len(parts) == 1 for parts in initial):
        return None
    values = [parts[0] for parts in initial]
    known = [em.facts.constant(x) for x in values]
    computed = [x for x, content in zip(values, known, strict=True) if content is None]
    starts = [x for x in known if x is not None]
    rows = next((x.shape[-1] for x in starts if x.ndim), 0)
    if len(computed) != 1 or not all(_is_start(x, rows) for x in starts):
        return None
    (pivots,) = computed
    shape = static_shape(pivots)
    order = _order(em, pivots)
    if not shape or order is None:
        return None
    if not any(same_regions(op.operation, loop) for _, loop in _loops(shape, rows)):
        return None
    results: list[Parts] = []
    for x, content in zip(values, known, strict=True):
        if content is None:
            results.append((x,))
        elif content.ndim:
            results.append((order,))
        else:  # the counter: the loop makes one trip for each exchange
            results.append((em.const(content.dtype.type(shape[-1])),))
    return results


def _is_start(content: np.ndarray, rows: int) -> bool:
    """Whether a state starts as a counter from 0, or as the numbers of all rows."""
    if not content.ndim:
        return bool(content == 0)
    return content.shape[-1] == rows and bool((content == np.arange(rows)).all())


def _order(em: Emitter, pivots: oir.Value) -> oir.Value | None:
    """The permutation that `note_order` noted, for the same pivots counted from 0.

    JAX subtracts 1 from the pivots, which LAPACK counts from 1.
    """
    node = pivots.producer()
    if node is None or node.op_type != "Sub":
        return None
    noted, one = node.inputs
    content = em.facts.constant(one) if one is not None else None
    if noted is None or content is None or not (content == 1).all():
        return None
    order: oir.Value | None = noted.meta.get(_ORDER)
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
