"""and, or, xor, not, popcnt, count_leading_zeros."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as oir

from dialect_handlers.common.integer_bits import as_unsigned, mask, shift_right_logical
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.options import BITCAST_OPSET

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

    All bits of s are set from the highest 1 of x downwards. For 32 bits and a model with BitCast it
    follows from the exponent of x as a float.
    """
    x = em.operand(op)
    smeared, width = as_unsigned(em, x), dtype_of(x).bitwidth
    if width == _EXPONENT_WIDTH and em.opset >= BITCAST_OPSET and em.has_bitcast:
        return em.cast(_zeros_by_exponent(em, smeared), dtype_of(x))
    step = 1
    while step < width:
        smeared = em.BitwiseOr(smeared, shift_right_logical(em, smeared, step))
        step *= 2
    zeros = em.Sub(em.scalar_like(width, smeared), _count_ones(em, smeared))
    return em.cast(zeros, dtype_of(x))


_EXPONENT_WIDTH, _EXPONENT_BITS, _BIAS = 32, 23, 127
"""Width of f32, where its exponent begins, and the exponent of 1."""


def _zeros_by_exponent(em: Emitter, x: oir.Value) -> oir.Value:
    """The leading zeros of u32: the exponent of an f32 is the place of the highest 1.

    The bits below a 1 are cleared where they follow another 1 directly. So the conversion cannot
    round up to the next power of two. The exponent of 0 is 0.
    """
    sparse = em.BitwiseAnd(x, em.BitwiseNot(shift_right_logical(em, x, 1)))
    coded = em.BitCast(em.cast(sparse, oir.DataType.FLOAT), to=oir.DataType.UINT32)
    exponent = shift_right_logical(em, coded, _EXPONENT_BITS)
    zeros = em.Sub(em.scalar_like(_BIAS + _EXPONENT_WIDTH - 1, x), exponent)
    return em.Min(zeros, em.scalar_like(_EXPONENT_WIDTH, x))


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
