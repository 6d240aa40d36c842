"""Values that are handed on: tuples, barriers and tokens need no nodes."""

from __future__ import annotations

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.tuple", form="any")
def tuple_(em: Emitter, op: Op) -> list[Parts]:
    """tuple(xs) -> the parts of all members."""
    return [tuple(part for operand in op.operands for part in em.parts(operand))]


@handles("stablehlo.get_tuple_element", form="any")
def get_tuple_element(em: Emitter, op: Op, *, index: int) -> list[Parts]:
    """get_tuple_element(x) -> the parts of member `index`."""
    members = ir.TupleType(op.operands[0].type)
    first = sum(len(parts_of(members.get_type(member))) for member in range(index))
    return [em.parts(op.operands[0])[first : first + len(parts_of(op.results[0].type))]]


@handles("stablehlo.optimization_barrier", form="any")
def optimization_barrier(em: Emitter, op: Op) -> list[Parts]:
    """optimization_barrier(xs) -> xs; ONNX has no barrier."""
    return [em.parts(operand) for operand in op.operands]


@handles("stablehlo.after_all", form="any")
def after_all(em: Emitter, op: Op) -> list[Parts]:
    """after_all(tokens) -> nothing: tokens order effects, and a model has no effects."""
    return [()]
