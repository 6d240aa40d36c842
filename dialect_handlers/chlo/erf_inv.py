"""erf_inv."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, rank_of, size_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

T = oir.DataType

_MOST_ELEMENTS = 1 << 16
"""Coefficients that are selected at once: a limit on the memory they take."""
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
    """erf_inv(x) = x * p(w), w = -log1p(-x²), in f32; MLIR expands other types into StableHLO.

    `jax.random.normal` uses it. XLA fuses each product of Horner's scheme with its sum; rounding
    the products, too, changes the result by at most 2 ULP.
    """
    x = em.operand(op)
    if dtype_of(x) != T.FLOAT:
        return em.expansion(op)
    w = _minus_log1p_of_minus(em, em.Mul(x, x))
    is_near = em.Less(w, em.scalar(5.0, T.FLOAT))
    from_middle = em.Sub(w, em.scalar(2.5, T.FLOAT))
    from_end = em.Sub(em.Sqrt(w), em.scalar(3.0, T.FLOAT))
    size = size_of(x)
    if size is not None and size <= em.costs.small_elements:
        p = _selected(em, is_near, em.Where(is_near, from_middle, from_end), size)
    else:
        near, far = ([em.scalar(c, T.FLOAT) for c in each] for each in (_NEAR, _FAR))
        both = _polynomial(em, near, from_middle), _polynomial(em, far, from_end)
        p = em.Where(is_near, *both)
    inside = em.Mul(p, x)
    low, high = em.facts.float_range(x)
    if low > -1 and high < 1:
        return [(inside,)]
    is_end = em.Equal(em.Abs(x), em.scalar(1.0, T.FLOAT))
    ends = em.Mul(x, em.scalar(float("inf"), T.FLOAT))
    return [(em.Where(is_end, ends, inside),)]


def _selected(em: Emitter, is_near: oir.Value, x: oir.Value, size: int) -> oir.Value:
    """The polynomial whose coefficients a condition selects: for few elements all of them at once,
    along a first axis, one by one for more."""
    powers = len(_NEAR)
    elements = size * powers
    # Where and Split take the place of a Where for each coefficient; an axis is removed at the end.
    saved = (powers - 3) * em.costs.joined_elements_per_node
    if elements > min(saved, _MOST_ELEMENTS):
        pairs = zip(_NEAR, _FAR, strict=True)
        return _polynomial(
            em, [em.Where(is_near, *(em.scalar(c, T.FLOAT) for c in pair)) for pair in pairs], x
        )
    shape = (powers, *[1] * rank_of(x))
    near, far = (em.const(np.array(each, np.float32).reshape(shape)) for each in (_NEAR, _FAR))
    ones = em.i64([1] * powers)
    rows = em.outputs("Split", em.Where(is_near, near, far), ones, axis=0, n_outputs=powers)
    return em.squeeze(_polynomial(em, rows, x), [0])


def _minus_log1p_of_minus(em: Emitter, y: oir.Value) -> oir.Value:
    """-log1p(-y) = (y - (1 - u)) / u - log(u), with u = round(1 - y), for y below 1; NaN at 1.

    The quotient is the error of rounding 1 - y, as in `accurate_math.log1p`.
    """
    one = em.scalar(1.0, T.FLOAT)
    u = em.Sub(one, y)
    lost: oir.Value = em.Div(em.Sub(y, em.Sub(one, u)), u)
    difference: oir.Value = em.Sub(lost, em.Log(u))
    return difference


def _polynomial(em: Emitter, coefficients: Sequence[oir.Value], x: oir.Value) -> oir.Value:
    """Horner's scheme, from the highest power down."""
    p, *others = coefficients
    for coefficient in others:
        p = em.Add(em.Mul(p, x), coefficient)
    return p
