"""while: Loop, in the simplest form for the program's loop.

The body captures states that no trip changes. If the trip count is known before the loop starts,
there is no condition to evaluate. Counters are computed from Loop's iteration number. A buffer
becomes a stacked output if each trip writes one row of it and nothing reads it meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from dialect_handlers.common.row_exchanges import known_order
from dialect_handlers.common.subgraphs import grouped, inputs_for, scalar_content, set_outputs
from dialect_handlers.common.tensors import flat
from hlo2onnx.errors import InternalError
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.dim_arithmetic import fits, plain
from hlo2onnx.ir.dims import canonical, dim_of, expression
from hlo2onnx.ir.notes import STACKED, hold_trip, note_loop
from hlo2onnx.ir.ranges import RANGE, Range, range_of_type
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.values import Shape, dtype_of, shape_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.lowering.shape_arithmetic import contents_of, holding, scalar_contents
from hlo2onnx.lowering.while_loops import Limit, LoopForm, loop_form

INT64 = oir.DataType.INT64


@handles("stablehlo.while", form="any")
def while_(em: Emitter, op: Op) -> list[Parts]:
    """while(operands) -> Loop; the operands if no trip runs, the body alone for a single trip."""
    if em.context.in_scalar_region:
        raise unsupported("loop in a scalar region")
    known, shape = partial(scalar_content, em), partial(_shape, em)
    form = loop_form(op.operation, em.context.functions, known, shape)
    initial = [em.parts(operand) for operand in op.operands]
    order = known_order(em, op, initial)
    if order is not None:
        return order
    if form.trips == 0:
        return initial
    if form.trips == 1:
        return em.inline(op.block(1), initial)
    if form.trips is None and form.limit is None:
        return _conditional(em, op, form, initial)
    return _counted(em, op, form, initial)


def _conditional(em: Emitter, op: Op, form: LoopForm, initial: list[Parts]) -> list[Parts]:
    """Loop with a condition, evaluated once before it and then at the end of the body."""
    carried = [k for k, parts in enumerate(initial) if parts and k not in form.invariants]
    if not carried:
        return initial
    (first,) = flat(em.inline(op.block(0), initial))
    trip, going, states = _inputs(em, op, carried)
    with em.subgraph([trip, going, *flat(states.values())], f"{em.scope}/body") as graph:
        after = em.inline(op.block(1), _with(initial, states))
        after = _with(initial, {k: after[k] for k in carried})
        (again,) = flat(em.inline(op.block(0), after))
        set_outputs(em, graph, [again, *flat(after[k] for k in carried)])
    final, _ = _loop(em, op, (None, first), carried, graph)
    return _with(initial, final)


def _counted(em: Emitter, op: Op, form: LoopForm, initial: list[Parts]) -> list[Parts]:
    """Loop with a trip count and no condition."""
    trips = _trips(em, form, initial)
    elsewhere = form.invariants | form.counters.keys() | form.stacks.keys()
    carried = [k for k, parts in enumerate(initial) if parts and k not in elsewhere]
    if not carried and not form.stacks:
        return _with(initial, _counters(em, form, initial, trips))
    trip, going, states = _inputs(em, op, carried)
    trip.meta[RANGE] = _trip_range(em, form, initial)
    buffers = {k: inputs_for(em, op.operands[k], f"{em.scope}/buffer") for k in form.stacks}
    em.rows.update((buffer, ()) for buffer in buffers.values())
    with em.subgraph([trip, going, *flat(states.values())], f"{em.scope}/body") as graph:
        counters = _numbered(em, form, initial, trip)
        after = em.inline(op.block(1), _with(initial, {**states, **buffers, **counters}))
        rows = [row for buffer in buffers.values() for row in _row(em, buffer)]
        set_outputs(em, graph, [going, *flat(after[k] for k in carried), *rows])
    final, stacked = _loop(em, op, (trips, None), carried, graph)
    for row, output in zip(rows, stacked, strict=True):
        hold_trip(trip, STACKED, row, output)
    stacks = dict(
        zip(buffers, grouped(stacked, [op.operands[k].type for k in buffers]), strict=True)
    )
    for k, is_reversed in form.stacks.items():
        for part, buffer in zip(stacks[k], initial[k], strict=True):
            part.shape = oir.Shape(shape_of(buffer))
        if is_reversed:
            stacks[k] = tuple(em.slice(part, [-1], [INT64_MIN], [-1], [0]) for part in stacks[k])
    return _with(initial, {**final, **stacks, **_counters(em, form, initial, trips)})


def _shape(em: Emitter, value: MlirValue) -> Shape:
    parts = em.parts(value)
    return shape_of(parts[0]) if parts else ()


def _numbered(
    em: Emitter, form: LoopForm, initial: Sequence[Parts], trip: oir.Value
) -> dict[int, Parts]:
    """The counters at the start of a trip, with noted contents, since shapes may depend on them."""
    counters = _counters(em, form, initial, trip)
    if not em.has_symbols or form.trips is None:
        return counters
    number = expression(em.extents.counted(trip, canonical(form.trips - 1)))
    for k, (value,) in counters.items():
        start = contents_of(initial[k][0])
        if start is None:
            continue
        item = plain(start.item() + number * form.counters[k])
        if fits([item], dtype_of(value)):
            holding(value, scalar_contents(item))
    return counters


def _row(em: Emitter, buffer: Parts) -> list[oir.Value]:
    """The row that the body wrote, without the leading axis that the write gave it."""
    row = em.rows.pop(buffer)
    if len(row) != len(buffer):
        raise InternalError("the write to a stack of rows was not translated")
    return [_without_leading_axis(em, part) for part in row]


def _without_leading_axis(em: Emitter, row: oir.Value) -> oir.Value:
    """The row itself, where the program made the update of it by adding the axis."""
    node = row.producer()
    if node is not None and node.op_type in ("Reshape", "Unsqueeze"):
        source = node.inputs[0]
        if source is not None and shape_of(source) == shape_of(row)[1:]:
            return source
    return em.squeeze(row, [0])


def _with(initial: Sequence[Parts], others: Mapping[int, Parts]) -> list[Parts]:
    """The states, some of them replaced."""
    return [others.get(k, parts) for k, parts in enumerate(initial)]


def _inputs(
    em: Emitter, op: Op, carried: Sequence[int]
) -> tuple[oir.Value, oir.Value, dict[int, Parts]]:
    """The inputs of a body: the iteration number, the condition, the states it carries."""
    trip = em.value(f"{em.scope}/trip", INT64, [])
    note_loop(trip, em.context.path)
    going = em.value(f"{em.scope}/going", oir.DataType.BOOL, [])
    states = {k: inputs_for(em, op.operands[k], f"{em.scope}/state") for k in carried}
    return trip, going, states


def _loop(
    em: Emitter,
    op: Op,
    limits: tuple[oir.Value | None, oir.Value | None],
    carried: Sequence[int],
    body: oir.Graph,
) -> tuple[dict[int, Parts], list[oir.Value]]:
    """The Loop; its final states and its stacked outputs."""
    initial = flat(em.parts(op.operands[k]) for k in carried)
    count = len(body.outputs) - 1
    made = em.outputs("Loop", *limits, *initial, body=body, n_outputs=count)
    final = grouped(made[: len(initial)], [op.operands[k].type for k in carried])
    return dict(zip(carried, final, strict=True)), list(made[len(initial) :])


def _counters(
    em: Emitter, form: LoopForm, initial: Sequence[Parts], trip: oir.Value
) -> dict[int, Parts]:
    """The counters at the start of a trip: start + trip * step, with wrap-around."""
    values: dict[int, Parts] = {}
    for k, step in form.counters.items():
        (start,) = initial[k]
        value = em.cast(trip, dtype_of(start))
        if step == -1:
            value = em.Sub(start, value)
        else:
            if step != 1:
                value = em.Mul(value, _wrapped(em, step, start))
            if em.facts.constant(start) != 0:
                value = em.Add(start, value)
        values[k] = (value,)
    return values


def _wrapped(em: Emitter, item: int, like: oir.Value) -> oir.Value:
    """An integer constant modulo the range of its type."""
    return em.const(np.array(item % (1 << 64), np.uint64).astype(dtype_of(like).numpy()))


def _trips(em: Emitter, form: LoopForm, initial: Sequence[Parts]) -> oir.Value:
    """How often the counter, which steps by one towards its limit, stays inside; a bound that it
    is past already counts as its start."""
    limit = form.limit
    if form.trips is not None or limit is None:
        return em.extents.scalar(form.trips or 0)
    start = em.cast(initial[limit.counter][0], INT64)
    bound = em.cast(_bound(em, limit), INT64)
    if limit.direction in ("LT", "LE"):
        end = em.Add(bound, em.i64(1)) if limit.direction == "LE" else bound
        return em.Sub(em.Max(end, start), start)
    end = em.Sub(bound, em.i64(1)) if limit.direction == "GE" else bound
    return em.Sub(start, em.Min(end, start))


def _trip_range(em: Emitter, form: LoopForm, initial: Sequence[Parts]) -> Range:
    """Bounds of the iteration number: the counter never leaves its type."""
    if form.limit is None:
        assert isinstance(form.trips, int)
        return Range(0, form.trips - 1)
    (counter,) = initial[form.limit.counter]
    start, everything = em.facts.int_range(counter), range_of_type(dtype_of(counter))
    start = start or everything
    if form.limit.direction in ("LT", "LE"):
        return Range(0, everything.high - start.low)
    return Range(0, start.high - everything.low)


def _bound(em: Emitter, limit: Limit) -> oir.Value:
    if isinstance(limit.bound, ir.Value):
        (bound,) = em.parts(limit.bound)
        return bound
    return em.extents.scalar(dim_of(limit.bound))
