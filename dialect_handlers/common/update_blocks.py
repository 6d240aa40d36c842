"""Updates in blocks: a Scan if the number of rows is static, else a Loop."""

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
    """Applies a step to consecutive blocks of rows, and then to the remaining rows.

    Args:
        name: The name of the body.
        initial: The first states. A step keeps their types.
        tensors: Tensors with the same number of rows. If it is static, it is at least `rows`.
        rows: Rows in a block.
        step: Computes the next states from the states and a block of each tensor.

    Returns:
        The last states.
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
    """A Loop whose last block has the remaining rows. It makes no trip if there are no rows."""
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
