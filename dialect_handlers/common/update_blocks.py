"""Updates in blocks: a Scan over blocks of a known number of rows, else a Loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as oir
import sympy

from dialect_handlers.common.parts import flat, regrouped
from dialect_handlers.common.subgraphs import repeat, set_outputs, states_of
from hlo2onnx.ir.dims import dim_of, expression
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

Step = Callable[[Sequence[Parts], Sequence[oir.Value]], Sequence[Parts]]
"""The next states, from the states and a block of each tensor."""


def in_blocks(
    em: Emitter,
    name: str,
    initial: Sequence[Parts],
    tensors: Sequence[oir.Value],
    rows: int,
    step: Step,
) -> list[Parts]:
    """Takes blocks of so many rows of tensors, in order, and then the rows left over.

    Args:
        initial: The first states, which keep their types.
        tensors: Tensors with the same number of rows; if it is a number, at least `rows`.
    """
    total = shape_of(tensors[0])[0]
    if not isinstance(total, int):
        return _in_loop(em, name, initial, tensors, rows, step)
    blocks = total // rows
    whole = [em.slice(part, [0], [blocks * rows], axes=[0]) for part in tensors]
    stacked = [em.reshape(part, [blocks, rows, *shape_of(part)[1:]]) for part in whole]
    states = states_of(em, "scattered", initial)
    given = [em.value("block", dtype_of(part), shape_of(part)[1:]) for part in stacked]
    with em.subgraph([*flat(states), *given], name) as body:
        set_outputs(em, body, flat(step(states, given)))
    types = [(dtype_of(part), shape_of(part)) for part in flat(initial)]
    attributes = {"body": body, "num_scan_inputs": len(given)}
    done = regrouped(em.node("Scan", [*flat(initial), *stacked], attributes, types), initial)
    if blocks * rows == total:
        return done
    return list(step(done, [em.slice(x, [blocks * rows], [total], axes=[0]) for x in tensors]))


def _in_loop(
    em: Emitter,
    name: str,
    initial: Sequence[Parts],
    tensors: Sequence[oir.Value],
    rows: int,
    step: Step,
) -> list[Parts]:
    """A Loop whose last block has the rows that are left; of no rows it takes none."""
    total = expression(shape_of(tensors[0])[0])
    trips = dim_of(sympy.floor((total + rows - 1) / rows))
    length, axis = em.i64([rows]), em.i64([0])

    def trip(number: oir.Value, states: list[Parts]) -> Sequence[Parts]:
        start = em.Mul(em.unsqueeze(number, [0]), length)
        end = em.Add(start, length)
        given = []
        for x in tensors:
            types = [(dtype_of(x), (oir.SymbolicDim(None), *shape_of(x)[1:]))]
            given.append(em.op("Slice", x, start, end, axis, types=types))
        return step(states, given)

    return repeat(em, name, trips, initial, trip)
