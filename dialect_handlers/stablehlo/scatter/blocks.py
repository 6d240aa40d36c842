"""Very many updates of a small operand, block by block."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.scattering import Region, scatter_in_order
from dialect_handlers.stablehlo.scatter.numbers import Axis, Batch, Numbers
from dialect_handlers.stablehlo.scatter.places import Places
from hlo2onnx.graph.values import dtype_of, shape_of
from hlo2onnx.lowering.emitter import Emitter, Parts

BOOL, INT64 = oir.DataType.BOOL, oir.DataType.INT64

MANY_ELEMENTS = 1 << 18
"""Updates of fewer elements are taken at once."""
BLOCK_ELEMENTS = 1 << 16
"""Elements of a block, whose indices (one for each element) then stay in the cache: 2 to 3 times
as fast as all at once, where memory for the indices costs more than the sums (measured)."""
COPY_RATIO = 4
"""A block has so many times the elements of the operand, which each trip of a Loop copies."""


def rows_of_a_block(n: Numbers, layout: Sequence[Axis]) -> int:
    """How many rows of the updates, in this layout, make a block; 0 for all of them at once."""
    total = math.prod(n.extents(layout))
    first = layout[0] if layout else None
    if total < MANY_ELEMENTS or not isinstance(first, Batch) or first.axis not in n.free:
        return 0
    size = max(BLOCK_ELEMENTS, COPY_RATIO * math.prod(n.dims))
    rows = max(size * n.extent(first) // total, 1)
    return rows if 2 * rows <= n.extent(first) else 0


def scatter_blocks(
    em: Emitter,
    n: Numbers,
    region: Region,
    xs: Sequence[Parts],
    places: Places,
    layout: Sequence[Axis],
    updates: Sequence[Parts],
    valid: oir.Value | None,
    rows: int,
) -> list[Parts]:
    """A Loop over blocks of so many rows, and the rows that are left over."""
    depth, total = len(n.dims), n.extent(layout[0])
    first = places.first(layout, depth)
    if shape_of(first)[0] != total:
        first = em.expand(first, [total, *shape_of(first)[1:]])  # type: ignore[list-item]
    counts = [len(parts) for parts in updates]
    tensors = [first, *(part for parts in updates for part in parts)]
    tensors += [] if valid is None else [valid]
    blocks = total // rows

    def scattered(states: Sequence[Parts], given: Sequence[oir.Value]) -> list[Parts]:
        index = places.index(layout, depth, given[0])
        rest = iter(given[1:])
        news = [tuple(next(rest) for _ in range(count)) for count in counts]
        return scatter_in_order(em, region, states, index, news, next(rest, None), 1)

    whole = [em.slice(part, [0], [blocks * rows], axes=[0]) for part in tensors]
    stacked = [em.reshape(part, [blocks, rows, *_dims(part)[1:]]) for part in whole]
    states = [
        tuple(em.value("scattered", dtype_of(part), shape_of(part)) for part in parts)
        for parts in xs
    ]
    flat = [part for parts in states for part in parts]
    trip, going_on = em.value("trip", INT64, []), em.value("on", BOOL, [])
    with em.subgraph([trip, going_on, *flat], "blocks") as body:
        results = scattered(states, [em.Gather(part, trip, axis=0) for part in stacked])
        body.outputs.append(em.Identity(going_on))
        body.outputs.extend(part for parts in results for part in parts)
    initial = [part for parts in xs for part in parts]
    types = [(dtype_of(part), shape_of(part)) for part in initial]
    outputs = em.op(
        "Loop", em.i64(blocks), em.const(np.array(True)), *initial,
        body=body, types=types, n_outputs=len(types),
    )  # fmt: skip
    final = iter([outputs] if len(types) == 1 else outputs)
    done = [tuple(next(final) for _ in parts) for parts in xs]
    if blocks * rows == total:
        return done
    return scattered(done, [em.slice(part, [blocks * rows], [total], axes=[0]) for part in tensors])


def _dims(x: oir.Value) -> list[int]:
    return [int(dim) for dim in shape_of(x)]  # type: ignore[arg-type]
