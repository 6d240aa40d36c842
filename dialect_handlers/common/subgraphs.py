"""Helpers for the subgraphs of loops and branches, and updates in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import onnx_ir as oir
import sympy
from jaxlib.mlir import ir

from dialect_handlers.common.tensors import each, flat, regrouped
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.dim_arithmetic import Item
from hlo2onnx.ir.dims import dim_of, expression
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.shape_arithmetic import contents_of


def inputs_for(em: Emitter, initial: MlirValue, name: str) -> Parts:
    """Inputs of a subgraph for a state with this initial value, which also gives its dynamic
    extents."""
    types = parts_of(initial.type)
    return tuple(
        em.value(name, type_.dtype, _dims(type_.shape, shape_of(part)))
        for type_, part in zip(types, em.parts(initial), strict=True)
    )


def _dims(known: Iterable[int | None], start: Iterable[Dim]) -> list[Dim]:
    return [own if dim is None else dim for dim, own in zip(known, start, strict=True)]


def set_outputs(em: Emitter, graph: oir.Graph, values: Iterable[oir.Value]) -> None:
    """Makes these values, in order, the outputs of the subgraph being built.

    An output must be made in the subgraph, and only once; Identity copies the others.
    """
    for value in values:
        node = value.producer()
        if node is None or node.graph is not graph or value.is_graph_output():
            value = em.Identity(value)
        graph.outputs.append(value)


def grouped(values: Sequence[oir.Value], like: Iterable[ir.Type]) -> list[Parts]:
    """The values as the parts of StableHLO values of these MLIR types."""
    rest = iter(values)
    return [tuple(next(rest) for _ in parts_of(mlir_type)) for mlir_type in like]


def states_of(em: Emitter, name: str, initial: Iterable[Parts]) -> list[Parts]:
    """Inputs of a subgraph with the types of these tensors."""
    return each(lambda part: em.value(name, dtype_of(part), shape_of(part)), initial)


def repeat(
    em: Emitter,
    name: str,
    trips: Dim,
    initial: Sequence[Parts],
    step: Callable[[oir.Value, list[Parts]], Sequence[Parts]],
) -> list[Parts]:
    """A Loop of this many trips over tensors that keep their types.

    Args:
        step: Takes the iteration number and the states; returns the next states.
    """
    limits = em.extents.scalar(trips), em.const(np.array(True))
    states = states_of(em, name, initial)
    return loop(em, name, limits, initial, states, lambda trip, now: (None, step(trip, now)))


def loop(
    em: Emitter,
    name: str,
    limits: tuple[oir.Value | None, oir.Value],
    initial: Sequence[Parts],
    states: Sequence[Parts],
    step: Callable[[oir.Value, list[Parts]], tuple[oir.Value | None, Sequence[Parts]]],
) -> list[Parts]:
    """A Loop; its results have the types of `states`.

    Args:
        limits: The trip limit, if there is one, and the first condition.
        states: Inputs of the body for the tensors in `initial`.
        step: Takes the iteration number and the states; returns the condition of the next trip,
            None for always, and the next states.
    """
    trip, going_on = em.value("trip", oir.DataType.INT64, []), em.value("on", oir.DataType.BOOL, [])
    types = [(dtype_of(part), shape_of(part)) for part in flat(states)]
    with em.subgraph([trip, going_on, *flat(states)], name) as body:
        condition, results = step(trip, list(states))
        set_outputs(em, body, [going_on if condition is None else condition, *flat(results)])
    made = em.node("Loop", [*limits, *flat(initial)], {"body": body}, types)
    return regrouped(made, initial)


# -- blocks of rows ---------------------------------------------------------------------------

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


# -- known scalars ----------------------------------------------------------------------------


def scalar_content(em: Emitter, value: MlirValue) -> Item | None:
    """The content of an integer or boolean scalar that is known now, or the extent it holds."""
    parts = em.parts(value)
    if len(parts) != 1 or len(parts[0].shape or ()) or parts[0].dtype is None:
        return None
    known = em.facts.constant(parts[0])
    if known is not None:
        return known.item() if known.dtype.kind in "iub" else None
    contents = contents_of(parts[0]) if em.has_symbols else None
    return None if contents is None else contents.item()
