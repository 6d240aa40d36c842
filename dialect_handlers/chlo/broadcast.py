"""CHLO ops that broadcast their operands, as ONNX operators do by themselves."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from dialect_handlers.common.integer_bits import uniform
from hlo2onnx.ir.shapes import broadcast_shapes
from hlo2onnx.ir.values import INTEGERS, dtype_of, rank_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

_BINARY = [
    f"chlo.broadcast_{name}"
    for name in (
        "add", "and", "atan2", "compare", "divide", "maximum", "minimum", "multiply", "next_after",
        "or", "polygamma", "power", "remainder", "shift_left", "shift_right_arithmetic",
        "shift_right_logical", "subtract", "xor", "zeta",
    )
]  # fmt: skip
_IN_EXPANSION = {
    "comparison_direction": "the expansion has it",
    "compare_type": "the expansion has it",
}


@handles(*_BINARY, ignores=_IN_EXPANSION)
@handles(*_BINARY, form="complex", ignores=_IN_EXPANSION)
def broadcast(
    em: Emitter, op: Op, *, broadcast_dimensions: Sequence[int] | None = None
) -> list[Parts]:
    """broadcast_x(a, b) -> the scalar op x on tensors, with numpy's broadcasting.

    broadcast_dimensions names the axes of the result that the operand of lower rank has, by default
    the last ones.
    """
    return em.expansion(op, _with_room(em, _placed(em, op, broadcast_dimensions)))


@handles("chlo.broadcast_complex", form="complex")
def broadcast_complex(
    em: Emitter, op: Op, *, broadcast_dimensions: Sequence[int] | None = None
) -> list[Parts]:
    """broadcast_complex(re, im) -> both operands as one pair, expanded to one shape."""
    (re,), (im,) = _placed(em, op, broadcast_dimensions)
    dims = broadcast_shapes(shape_of(re), shape_of(im))
    return [(em.expand(re, dims), em.expand(im, dims))]


def _with_room(em: Emitter, operands: Sequence[Parts]) -> list[Parts]:
    """The operands, expanded to the shape of integer constants with equal elements: divisions and
    shifts treat such a constant as a number, and their results have the shape of the others."""
    numbers = [
        shape_of(part)
        for (part, *_) in operands
        if dtype_of(part) in INTEGERS and uniform(em, part) is not None
    ]
    return [
        tuple(em.expand(part, broadcast_shapes(shape_of(part), *numbers)) for part in parts)
        for parts in operands
    ]


def _placed(em: Emitter, op: Op, axes: Sequence[int] | None) -> list[Parts]:
    """The operands; the one of lower rank gets axes of extent 1."""
    operands = [em.parts(operand) for operand in op.operands]
    if axes is None:
        return operands
    return [_among(em, parts, len(op.result_shape()), axes) for parts in operands]


def _among(em: Emitter, parts: Parts, rank: int, axes: Sequence[int]) -> Parts:
    if rank_of(parts[0]) == rank:
        return parts
    others = [axis for axis in range(rank) if axis not in axes]
    return tuple(em.unsqueeze(part, others) for part in parts)


@handles("chlo.broadcast_select", form="parts")
def broadcast_select(em: Emitter, op: Op) -> oir.Value:
    """broadcast_select(p, a, b) -> Where, which broadcasts as numpy does."""
    return em.Where(*em.operands(op))
