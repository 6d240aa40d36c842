"""f32 functions for targets whose kernels are missing, or wrong, in f32 as well.

WGSL allows Sin and Cos an error of 2^-11, and GPUs use it. The polynomials are those of Cephes. The
number after each formula is the largest error found in ONNX Runtime, in ULP. Where r is below 1e-8,
it is 50.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.targets.decompositions.f64_functions import asinh_f64, polynomial

_HALF_PI = (201 / 2**7, 253 / 2**19, 170 / 2**27, 9.920935796805404e-10)
"""pi/2 as a sum whose first parts have 8 bits: their products by k < 2^16 are exact."""
_LARGEST = 1e5
"""From here on k has more than 16 bits, and the result is NaN."""
_SIN = [-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4]
_COS = [4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5]


class _Turned(NamedTuple):
    """x = k pi/2 + r, with r within pi/4."""

    k: oir.Value
    sin: oir.Value
    cos: oir.Value


def _turned(b: GraphBuilder, x: oir.Value) -> _Turned:
    """k, and the sine and cosine of r."""
    is_near = b.Less(b.Abs(x), b.scalar_like(_LARGEST, x))
    x = b.Where(is_near, x, b.scalar_like(math.nan, x))
    k = b.Round(b.Mul(x, b.scalar_like(2 / math.pi, x)))
    r = x
    for part in _HALF_PI:
        r = b.Sub(r, b.Mul(k, b.scalar_like(part, x)))
    square = b.Mul(r, r)
    sin = b.Add(r, b.Mul(b.Mul(r, square), polynomial(b, square, _SIN)))
    ends = b.Sub(b.scalar_like(1, x), b.Mul(square, b.scalar_like(0.5, x)))
    cos = b.Add(ends, b.Mul(b.Mul(square, square), polynomial(b, square, _COS)))
    return _Turned(k, sin, cos)


def _is_odd(b: GraphBuilder, k: oir.Value) -> oir.Value:
    pairs = b.Mul(k, b.scalar_like(0.5, k))
    return b.Greater(b.Sub(pairs, b.Floor(pairs)), b.scalar_like(0, k))


def _sine(b: GraphBuilder, turned: _Turned, quarters: int) -> oir.Value:
    """The sine of x + quarters pi/2."""
    k = b.Add(turned.k, b.scalar_like(quarters, turned.k)) if quarters else turned.k
    size = b.Where(_is_odd(b, k), turned.cos, turned.sin)
    half_turns = b.Floor(b.Mul(k, b.scalar_like(0.5, k)))
    return b.Where(_is_odd(b, half_turns), b.Neg(size), size)


def sin_f32(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """sin(r), cos(r), -sin(r) or -cos(r).  3"""
    return _sine(b, _turned(b, x), 0)


def cos_f32(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """cos(r), -sin(r), -cos(r) or sin(r).  3"""
    return _sine(b, _turned(b, x), 1)


def tan_f32(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """sin(r) / cos(r) or -cos(r) / sin(r).  4"""
    k, sin, cos = _turned(b, x)
    return b.Where(_is_odd(b, k), b.Neg(b.Div(cos, sin)), b.Div(sin, cos))


def acos_f32(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """2 atan(sqrt((1 - x) / (1 + x))).  4"""
    one = b.scalar_like(1, x)
    half = b.Atan(b.Sqrt(b.Div(b.Sub(one, x), b.Add(one, x))))
    return b.Add(half, half)


F32_FUNCTIONS: Mapping[str, Callable[[GraphBuilder, oir.Value], oir.Value]] = {
    "Acos": acos_f32,
    "Asinh": asinh_f64,
    "Cos": cos_f32,
    "Sin": sin_f32,
    "Tan": tan_f32,
}
"""The function for each ONNX operator."""


def decompose_f32_function(builder: GraphBuilder, node: oir.Node) -> oir.Value:
    """A node of one of these operators, as the nodes of its function."""
    x = node.inputs[0]
    assert x is not None
    return F32_FUNCTIONS[node.op_type](builder, x)
