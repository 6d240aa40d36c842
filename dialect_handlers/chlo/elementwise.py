"""Elementwise CHLO ops, with and without broadcasting. MLIR expands those without a handler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.bits import uniform
from dialect_handlers.common.elementwise import one_operator
from hlo2onnx.ir.accurate_math import rounded_once
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.notes import HALF_TYPES, note_origin
from hlo2onnx.ir.shapes import broadcast_shapes
from hlo2onnx.ir.values import INTEGERS, dtype_of, rank_of, shape_of, size_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

# -- ops with an ONNX operator ----------------------------------------------------------------
#
# CHLO ops with an ONNX operator. MLIR's pass expands the others (`Emitter.expansion`).
#
# In f32 every kernel of ONNX Runtime named here is at least as close to the exact value as XLA's
# expansion (largest errors in ULP, runtime against XLA: Acos 5:2, Acosh 2:4, Asin 5:2, Asinh 2:3,
# Atan 4:6, Atanh 2:3, Cosh 2:25, Erf 1:5, Sinh 2:25), or within 5 ULP.


one_operator(
    {
        "chlo.acos": "Acos",
        "chlo.acosh": "Acosh",
        "chlo.asin": "Asin",
        "chlo.asinh": "Asinh",
        "chlo.atan": "Atan",
        "chlo.atanh": "Atanh",
        "chlo.cosh": "Cosh",
        "chlo.erf": "Erf",
        "chlo.is_inf": "IsInf",
        "chlo.sinh": "Sinh",
        "chlo.tan": "Tan",
    }
)


@handles("chlo.is_pos_inf")
def is_pos_inf(em: Emitter, op: Op) -> oir.Value:
    """is_pos_inf(x) -> IsInf(detect_negative=0)."""
    return em.IsInf(em.operand(op), detect_negative=0)


@handles("chlo.is_neg_inf")
def is_neg_inf(em: Emitter, op: Op) -> oir.Value:
    """is_neg_inf(x) -> IsInf(detect_positive=0)."""
    return em.IsInf(em.operand(op), detect_positive=0)


@handles("chlo.square")
def square(em: Emitter, op: Op) -> oir.Value:
    """square(x) = x * x."""
    x = em.operand(op)
    return em.Mul(x, x)


T = oir.DataType


# -- erf_inv ----------------------------------------------------------------------------------


_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
"""Giles' polynomials ("Approximating the erfinv function", 2010), in w - 2.5 where w < 5 and in
sqrt(w) - 3 elsewhere, from the highest power down."""


@handles("chlo.erf_inv")
def erf_inv(em: Emitter, op: Op) -> list[Parts]:
    """erf_inv(x) = x * p(w), w = -log1p(-x²), for many f32; MLIR expands others into StableHLO.

    `jax.random.normal` uses it. MLIR's expansion has fewer nodes, but selects each coefficient for
    each element: of many it takes four times as long. XLA fuses each product of Horner's scheme
    with its sum; rounding the products, too, changes the result by at most 2 ULP.
    """
    x = em.operand(op)
    size = size_of(x)
    if dtype_of(x) != T.FLOAT or (size is not None and size <= em.costs.small_elements):
        return em.expansion(op)
    w = _minus_log1p_of_minus(em, em.Mul(x, x))
    near = _polynomial(em, _NEAR, em.Sub(w, em.scalar(2.5, T.FLOAT)))
    far = _polynomial(em, _FAR, em.Sub(em.Sqrt(w), em.scalar(3.0, T.FLOAT)))
    inside = em.Mul(em.Where(em.Less(w, em.scalar(5.0, T.FLOAT)), near, far), x)
    low, high = em.facts.float_range(x)
    if low > -1 and high < 1:
        return [(inside,)]
    is_end = em.Equal(em.Abs(x), em.scalar(1.0, T.FLOAT))
    ends = em.Mul(x, em.scalar(float("inf"), T.FLOAT))
    return [(em.Where(is_end, ends, inside),)]


def _minus_log1p_of_minus(em: Emitter, y: oir.Value) -> oir.Value:
    """-log1p(-y) = (y - (1 - u)) / u - log(u), with u = round(1 - y), for y below 1; NaN at 1.

    The quotient is the error of rounding 1 - y, as in `accurate_math.log1p`.
    """
    one = em.scalar(1.0, T.FLOAT)
    u = em.Sub(one, y)
    lost: oir.Value = em.Div(em.Sub(y, em.Sub(one, u)), u)
    difference: oir.Value = em.Sub(lost, em.Log(u))
    return difference


def _polynomial(b: GraphBuilder, coefficients: Sequence[float], x: oir.Value) -> oir.Value:
    """Horner's scheme, from the highest power down."""
    p, *others = (b.scalar_like(each, x) for each in coefficients)
    for coefficient in others:
        p = b.Add(b.Mul(p, x), coefficient)
    return p


# -- chlo.erfc: the complementary error function in f16 and bf16 ------------------------------


_LOG_OF_TAIL = (
    -23.8287035, 47.7373663, -31.7875890, 5.51894443, -0.306471341, 1.57581309, 1.99703358,
    -0.572320659,
)  # fmt: skip
"""p(t) from the highest power down: an approximation of log(erfc(x) / t) + x² for x >= 0. The error
is at most 7.5e-7."""


@handles("chlo.erfc")
def erfc(em: Emitter, op: Op) -> list[Parts]:
    """erfc(x) = t exp(p(t) - x²) with t = 1 / (2 + |x|), for f16 and bf16.

    MLIR expands the op in other types into StableHLO.
    """
    x = em.operand(op)
    if dtype_of(x) not in HALF_TYPES:
        return em.expansion(op)
    result = rounded_once(em, _in_f32, x)
    note_origin(result, op.name, [x])
    return [(result,)]


def _in_f32(b: GraphBuilder, x: oir.Value) -> oir.Value:
    two = b.scalar_like(2, x)
    t = b.Reciprocal(b.Add(b.Abs(x), two))
    p = _polynomial(b, _LOG_OF_TAIL, t)
    tail = b.Mul(b.Exp(b.Sub(p, b.Mul(x, x))), t)
    return b.Where(b.Less(x, b.scalar_like(0, x)), b.Sub(two, tail), tail)


# -- next_after -------------------------------------------------------------------------------


@handles("chlo.next_after")
def next_after(em: Emitter, op: Op) -> list[Parts]:
    """next_after(x, y) -> integer arithmetic on the bits of x; a constant for two constants.

    `jax.random.truncated_normal` has two constants, and then needs no BitCast.
    """
    x, y = (em.facts.constant(operand) for operand in em.operands(op))
    if x is None or y is None or x.size != 1 or y.size != 1 or x.dtype.kind != "f":
        return em.expansion(op)
    number = np.nextafter(x.reshape(()), y.reshape(()))
    return [(em.expand(em.const(number), em.result_dims(op)),)]


# -- ops that broadcast their operands, as ONNX operators do by themselves --------------------


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
