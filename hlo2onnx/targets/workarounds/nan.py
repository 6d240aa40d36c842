"""Guards of functions and extremes that lose NaN, or give numbers outside their domains."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.values import attributes_of, const_number, dtype_of, present, shape_of
from hlo2onnx.targets.builder import TargetBuilder

# -- function domains ------------------------------------------------------------------------------

# Guards of f32 functions at NaN, at infinity and outside their domains.
#
# WGSL does not define the results of its functions there, and GPUs return arbitrary numbers.


T = oir.DataType


def guard_domain(b: GraphBuilder, node: oir.Node, facts: Facts) -> oir.Value | None:
    """The result of an f32 function with a guard.

    Returns:
        None for other types, and if no operand can be NaN or outside the domain.
    """
    x = node.inputs[0]
    if x is None or dtype_of(x) != T.FLOAT:
        return None
    inputs = present(node.inputs)
    is_inside = node.op_type in _ALL_NUMBERS or (
        node.op_type in _POSITIVE_NUMBERS and facts.float_range(x).low > 0
    )
    if is_inside and all(map(facts.nan_free, inputs)):
        return None
    (result,) = b.copy_of(node, inputs)
    return _GUARDS[node.op_type](b, result, *inputs)


def _numbers(b: GraphBuilder, result: oir.Value, x: oir.Value) -> oir.Value:
    """f(NaN) = NaN."""
    return b.Where(b.LessOrEqual(x, b.scalar_like(math.inf, x)), result, x)


def _finite(b: GraphBuilder, result: oir.Value, x: oir.Value) -> oir.Value:
    """f(NaN) = NaN and f(±inf) = ±inf."""
    return b.Where(b.Less(b.Abs(x), b.scalar_like(math.inf, x)), result, x)


def _positive(b: GraphBuilder, result: oir.Value, x: oir.Value) -> oir.Value:
    """f(0) = -inf; f(x) = NaN for x < 0 and NaN."""
    zero, nan = b.scalar_like(0, x), b.scalar_like(math.nan, x)
    others = b.Where(b.Equal(x, zero), b.scalar_like(-math.inf, x), nan)
    return b.Where(b.Greater(x, zero), result, others)


def _from_one(b: GraphBuilder, result: oir.Value, x: oir.Value) -> oir.Value:
    """f(x) = NaN for x < 1 and NaN."""
    is_inside = b.GreaterOrEqual(x, b.scalar_like(1, x))
    return b.Where(is_inside, result, b.scalar_like(math.nan, x))


def _within_one(b: GraphBuilder, result: oir.Value, x: oir.Value) -> oir.Value:
    """f(±1) = ±inf; f(x) = NaN for |x| > 1 and NaN."""
    size, one = b.Abs(x), b.scalar_like(1, x)
    end = b.Mul(x, b.scalar_like(math.inf, x))
    others = b.Where(b.Equal(size, one), end, b.scalar_like(math.nan, x))
    return b.Where(b.Less(size, one), result, others)


def _power(b: GraphBuilder, result: oir.Value, x: oir.Value, y: oir.Value) -> oir.Value:
    """1^y = 1, and 0^y is infinite for y < 0.

    x^y is NaN if x is finite and negative and y is not an integer, and if y is NaN.
    """
    exponent = const_number(y)
    if exponent is not None and exponent > 0 and exponent == math.floor(exponent):
        return result
    y = b.cast(y, T.FLOAT)
    zero, one = b.scalar_like(0, x), b.scalar_like(1, x)
    infinity = b.scalar_like(math.inf, x)
    is_whole, half = b.Equal(b.Floor(y), y), b.Mul(y, b.scalar_like(0.5, y))
    is_odd = b.And(is_whole, b.Not(b.Equal(b.Floor(half), half)))
    is_size = b.Or(b.GreaterOrEqual(x, zero), b.Equal(x, b.scalar_like(-math.inf, x)))
    is_inside = b.Or(b.And(is_size, b.LessOrEqual(y, infinity)), is_whole)
    is_pole = b.And(b.Equal(x, zero), b.Less(y, zero))
    pole = b.Where(is_odd, b.Div(one, x), infinity)
    inside = b.Where(is_pole, pole, result)
    numbers = b.Where(is_inside, inside, b.scalar_like(math.nan, x))
    return b.Where(b.Equal(x, one), one, numbers)


_GUARDS: Mapping[str, Callable[..., oir.Value]] = {
    "Acosh": _from_one,
    "Asinh": _finite,
    "Atanh": _within_one,
    "Cosh": _numbers,
    "Exp": _numbers,
    "Log": _positive,
    "Pow": _power,
    "Sigmoid": _numbers,
    "Softplus": _numbers,
}
GUARDED_FUNCTIONS = tuple(_GUARDS)
_ALL_NUMBERS = frozenset({"Cosh", "Exp", "Sigmoid", "Softplus"})
"""Functions whose kernels are right for all numbers but NaN."""
_POSITIVE_NUMBERS = frozenset({"Log", "Pow"})

# -- reduce nan ------------------------------------------------------------------------------------

# Extremes of floats, for runtimes whose ReduceMax and ReduceMin lose NaN.


def guard_nan(builder: TargetBuilder, node: oir.Node, facts: Facts) -> oir.Value | None:
    """A ReduceMax or ReduceMin that gives NaN where there is one; None if there can be none.

    A sum of non-negative numbers is NaN only if one of them is: infinities do not cancel, and
    overflow gives +inf.
    """
    x, *axes = node.inputs
    assert x is not None
    if facts.nan_free(x):
        return None
    types = [(dtype_of(node.outputs[0]), shape_of(node.outputs[0]))]
    terms = x if facts.float_range(x).low >= 0 else builder.Relu(x)
    witness = builder.op("ReduceSum", terms, *axes, types=types, **attributes_of(node))
    numbers = builder.like(node, [x, *axes], types)
    return builder.Where(builder.IsNaN(witness), witness, numbers)
