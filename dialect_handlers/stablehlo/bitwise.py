"""and, or, xor, not, popcnt, count_leading_zeros."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as oir

from dialect_handlers.common.integer_bits import as_unsigned, mask, shift_right_logical
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

BY_TYPE = {
    "stablehlo.and": ("And", "BitwiseAnd"),
    "stablehlo.or": ("Or", "BitwiseOr"),
    "stablehlo.xor": ("Xor", "BitwiseXor"),
    "stablehlo.not": ("Not", "BitwiseNot"),
}
"""The operator on booleans and the one on integers."""


def _logical(on_booleans: str, on_integers: str) -> Callable[[Emitter, Op], oir.Value]:
    def handler(em: Emitter, op: Op) -> oir.Value:
        boolean = em.result_type(op).dtype == oir.DataType.BOOL
        return em.op(on_booleans if boolean else on_integers, *em.operands(op))

    handler.__doc__ = f"{on_integers}; {on_booleans} for booleans"
    return handler


for _name, _pair in BY_TYPE.items():
    handles(_name)(_logical(*_pair))


@handles("stablehlo.popcnt")
def popcnt(em: Emitter, op: Op) -> oir.Value:
    """popcnt(x) = the number of bits of x that are 1."""
    x = em.operand(op)
    return em.cast(_count_ones(em, as_unsigned(em, x)), dtype_of(x))


@handles("stablehlo.count_leading_zeros")
def count_leading_zeros(em: Emitter, op: Op) -> oir.Value:
    """count_leading_zeros(x) = width - popcnt(s).

    All bits of s are set from the highest 1 of x downwards.
    """
    x = em.operand(op)
    smeared, width = as_unsigned(em, x), dtype_of(x).bitwidth
    step = 1
    while step < width:
        smeared = em.BitwiseOr(smeared, shift_right_logical(em, smeared, step))
        step *= 2
    zeros = em.Sub(em.scalar_like(width, smeared), _count_ones(em, smeared))
    return em.cast(zeros, dtype_of(x))


def _count_ones(em: Emitter, x: oir.Value) -> oir.Value:
    """Bits of an unsigned x, counted in fields of 2, 4 and 8 bits; then one product adds up the
    bytes in the highest one."""
    width = dtype_of(x).bitwidth
    ones = (1 << width) - 1
    x = em.Sub(x, mask(em, shift_right_logical(em, x, 1), ones // 3))
    if width > 2:
        pairs, shifted = mask(em, x, ones // 5), shift_right_logical(em, x, 2)
        x = em.Add(pairs, mask(em, shifted, ones // 5))
    if width > 4:
        x = mask(em, em.Add(x, shift_right_logical(em, x, 4)), ones // 17)
    if width > 8:
        x = shift_right_logical(em, em.Mul(x, em.scalar_like(ones // 255, x)), width - 8)
    return x
