"""CHLO ops along an axis: scan and top_k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from dialect_handlers.common.sorting import largest_of
from dialect_handlers.common.subgraphs import grouped, set_outputs, states_of
from dialect_handlers.common.tensors import flat
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.ir.type_inference import ValueType
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

# -- scan: a body applied to one slice after the other ----------------------------------------


_LICENCE = {"is_associative": "a licence to combine in another order"}


@handles("chlo.scan", form="any", ignores=_LICENCE)
def scan(
    em: Emitter,
    op: Op,
    *,
    dimension: int,
    operandSegmentSizes: Sequence[int],  # noqa: N803  (MLIR's name)
    resultSegmentSizes: Sequence[int],  # noqa: N803
    is_reverse: bool = False,
    scan_dim_size: int | None = None,
) -> list[Parts]:
    """scan(inputs, inits) { body } -> Scan along the dimension, from its end if `is_reverse`.

    The body takes a slice of each input and the carries, and returns a slice of each output and the
    carries. The body does not run if there are no slices.
    """
    if em.context.in_scalar_region:
        raise unsupported("loop in a scalar region")
    inputs = flat(em.parts(operand) for operand in op.operands[: operandSegmentSizes[0]])
    inits = [em.parts(operand) for operand in op.operands[operandSegmentSizes[0] :]]
    stacked = [result.type for result in op.results[: resultSegmentSizes[0]]]
    trips = shape_of(inputs[0])[dimension] if inputs else scan_dim_size
    if trips == 0:
        return [_nothing(em, mlir_type) for mlir_type in stacked] + inits
    if inputs:
        axis = dimension
    else:  # Scan needs one to know how often.
        inputs, axis = [em.const(np.zeros(trips, bool))], 0
    body = _body(em, op, inputs, inits, axis, operandSegmentSizes[0])
    count, outputs = len(flat(inits)), len(body.outputs) - len(flat(inits))
    rows: list[ValueType] = [
        (dtype_of(x), (trips or 0, *shape_of(x))) for x in list(body.outputs)[count:]
    ]
    made = em.node(
        "Scan",
        [*flat(inits), *inputs],
        {
            "body": body,
            "num_scan_inputs": len(inputs),
            "scan_input_axes": [axis] * len(inputs),
            "scan_input_directions": [int(is_reverse)] * len(inputs),
            "scan_output_directions": [int(is_reverse)] * outputs,
        },
        [*((dtype_of(x), shape_of(x)) for x in flat(inits)), *rows],
    )
    carries = grouped(made[:count], [value.type for value in op.results[len(stacked) :]])
    # ONNX Runtime ends the process when it stacks nothing along another axis than the first.
    placed = [_placed(em, x, dimension) for x in made[count:]]
    return grouped(placed, stacked) + carries


def _placed(em: Emitter, x: oir.Value, axis: int) -> oir.Value:
    """x with its first axis at this place."""
    others = list(range(1, len(shape_of(x))))
    return em.transpose(x, [*others[:axis], 0, *others[axis:]])


def _body(
    em: Emitter,
    op: Op,
    inputs: Sequence[oir.Value],
    inits: Sequence[Parts],
    dimension: int,
    count: int,
) -> oir.Graph:
    """The body as a graph over carries and slices, in this order."""
    carries = states_of(em, f"{em.scope}/carry", inits)
    slices = [
        em.value(
            f"{em.scope}/slice",
            dtype_of(x),
            [dim for axis, dim in enumerate(shape_of(x)) if axis != dimension],
        )
        for x in inputs
    ]
    given = grouped(slices, [operand.type for operand in op.operands[:count]])
    with em.subgraph([*flat(carries), *slices], f"{em.scope}/body") as graph:
        returned = em.inline(op.block(0), [*given, *carries])
        outputs = len(returned) - len(inits)
        set_outputs(em, graph, flat([*returned[outputs:], *returned[:outputs]]))
    return graph


def _nothing(em: Emitter, mlir_type: ir.Type) -> Parts:
    return tuple(
        em.const(np.empty(em.static_dims(mlir_type)), part.dtype) for part in parts_of(mlir_type)
    )


# -- top_k ------------------------------------------------------------------------------------


@handles(
    "chlo.top_k",
    ignores={"is_stable": "equal elements always come in the order of their indices"},
)
def top_k(em: Emitter, op: Op, *, k: int) -> list[oir.Value]:
    """top_k(x) -> TopK along the last axis, in total order: NaN is the largest."""
    return largest_of(em, em.operand(op), k)
