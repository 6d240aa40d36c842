"""compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.bits import total_order_key
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.facts import MOVES_DATA
from hlo2onnx.ir.values import FLOATS, UNSIGNED, const_of, dtype_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

# -- compare ----------------------------------------------------------------------------------


Compare = Callable[[Emitter, oir.Value, oir.Value], oir.Value]

NUMBERS: Mapping[str, Compare] = {
    "EQ": lambda em, a, b: em.Equal(a, b),
    "NE": lambda em, a, b: em.Not(em.Equal(a, b)),
    "LT": lambda em, a, b: em.Less(a, b),
    "LE": lambda em, a, b: em.LessOrEqual(a, b),
    "GT": lambda em, a, b: em.Greater(a, b),
    "GE": lambda em, a, b: em.GreaterOrEqual(a, b),
}
"""With NaN only NE is true, as in StableHLO."""

BOOLEANS: Mapping[str, Compare] = {
    "EQ": lambda em, a, b: em.Equal(a, b),
    "NE": lambda em, a, b: em.Xor(a, b),
    "LT": lambda em, a, b: em.And(em.Not(a), b),
    "LE": lambda em, a, b: em.Or(em.Not(a), b),
    "GT": lambda em, a, b: em.And(a, em.Not(b)),
    "GE": lambda em, a, b: em.Or(a, em.Not(b)),
}
"""false < true; ONNX orders numbers only."""

COMPLEX: Mapping[str, Callable[..., oir.Value]] = {
    "EQ": lambda em, re, im: em.And(re, im),
    "NE": lambda em, re, im: em.Or(re, im),
}
"""The operator that joins the comparisons of the real and the imaginary parts."""


@handles("stablehlo.compare")
def compare(
    em: Emitter, op: Op, *, comparison_direction: str, compare_type: str = "NOTYPE"
) -> oir.Value:
    """compare(lhs, rhs) -> Equal, Less, ...; TOTALORDER compares the bits of floats as integers, or
    numbers where neither zero nor NaN has a sign, as in `jnp.searchsorted`."""
    lhs, rhs = em.operands(op)
    _check_type(dtype_of(lhs), compare_type)
    if compare_type == "TOTALORDER":
        numbers = canonical_numbers(em, lhs), canonical_numbers(em, rhs)
        if numbers[0] is not None and numbers[1] is not None:
            return _NAN_GREATEST[comparison_direction](em, numbers[0], numbers[1])
        lhs, rhs = total_order_key(em, lhs), total_order_key(em, rhs)
    table = BOOLEANS if dtype_of(lhs) == oir.DataType.BOOL else NUMBERS
    return table[comparison_direction](em, lhs, rhs)


@handles("stablehlo.compare", form="complex")
def compare_complex(
    em: Emitter, op: Op, *, comparison_direction: str, compare_type: str = "NOTYPE"
) -> oir.Value:
    """compare EQ or NE of complex numbers -> the real and the imaginary parts compared."""
    join = COMPLEX.get(comparison_direction)
    if join is None or compare_type == "TOTALORDER":
        raise unsupported("order of complex numbers", f"{comparison_direction}, {compare_type}")
    (re_l, im_l), (re_r, im_r) = (em.parts(operand) for operand in op.operands)
    parts = NUMBERS[comparison_direction]
    return join(em, parts(em, re_l, re_r), parts(em, im_l, im_r))


def _at_most(em: Emitter, a: oir.Value, b: oir.Value) -> oir.Value:
    """a <= b where every NaN is equal and above infinity."""
    numbers = em.LessOrEqual(a, b)
    return numbers if _nan_free(em, b) else em.Or(em.IsNaN(b), numbers)


def _less(em: Emitter, a: oir.Value, b: oir.Value) -> oir.Value:
    """a < b where every NaN is equal and above infinity."""
    return em.Less(a, b) if _nan_free(em, b) else em.Not(_at_most(em, b, a))


def _equal(em: Emitter, a: oir.Value, b: oir.Value) -> oir.Value:
    """a == b where every NaN is equal."""
    numbers = em.Equal(a, b)
    if _nan_free(em, a) or _nan_free(em, b):
        return numbers
    return em.Or(numbers, em.And(em.IsNaN(a), em.IsNaN(b)))


def _nan_free(em: Emitter, x: oir.Value) -> bool:
    return em.facts.nan_free(x) or not em.guards_nan


_NAN_GREATEST: Mapping[str, Compare] = {
    "EQ": _equal,
    "NE": lambda em, a, b: em.Not(_equal(em, a, b)),
    "LT": _less,
    "LE": _at_most,
    "GT": lambda em, a, b: _less(em, b, a),
    "GE": lambda em, a, b: _at_most(em, b, a),
}
"""The order of numbers without signs of zero and NaN."""


def _check_type(dtype: oir.DataType, compare_type: str) -> None:
    """StableHLO's constraint C3, which its verifier leaves to the compiler."""
    if dtype in FLOATS:
        fits = compare_type in ("NOTYPE", "FLOAT", "TOTALORDER")
    elif dtype in UNSIGNED or dtype == oir.DataType.BOOL:
        fits = compare_type in ("NOTYPE", "UNSIGNED")
    else:
        fits = compare_type in ("NOTYPE", "SIGNED")
    if not fits:
        raise UnsupportedOp(f"compare_type {compare_type} does not fit the element type {dtype}")


# -- floats whose total order is that of numbers ----------------------------------------------
#
# Floats whose zeros and NaN have no negative sign, so that their total order is that of numbers.
#
# JAX makes them so before it compares in total order: `jnp.searchsorted`, and with it `jnp.interp`
# and `jnp.histogram`.


def canonical_numbers(em: Emitter, x: oir.Value) -> oir.Value | None:
    """A value that is x up to the signs of zeros and of NaN, if x provably has neither -0 nor a
    negative NaN; else None."""
    number = _before_canonicalization(em, x)
    if number is not None:
        return number
    array = const_of(x)
    if array is not None:
        return None if _has_negative_special(array) else x
    node = x.producer()
    if node is None or node.op_type not in MOVES_DATA or node.inputs[0] is None:
        return None
    return None if canonical_numbers(em, node.inputs[0]) is None else x


def _before_canonicalization(em: Emitter, x: oir.Value) -> oir.Value | None:
    """y for x = Where(y != y, NaN, Where(y == 0, 0, y)); else None."""
    outer = _operands(x, "Where")
    inner = _operands(outer[2], "Where") if outer else None
    if outer is None or inner is None:
        return None
    (unordered, nan, _), (is_zero, zero, y) = outer, inner
    negated = _operands(unordered, "Not")
    equal = None if negated is None else _operands(negated[0], "Equal")
    tested = _operands(unordered, "IsNaN") if equal is None else equal
    compared = _operands(is_zero, "Equal")
    if tested is None or compared is None or any(operand is not y for operand in tested):
        return None
    if compared[0] is not y or not _is_zero(em, compared[1]):
        return None
    array = em.facts.constant(nan)
    if array is None or _has_negative_special(array) or not np.isnan(_wide(array)).all():
        return None
    array = em.facts.constant(zero)
    if array is None or _has_negative_special(array) or _wide(array).any():
        return None
    return y


def _operands(x: oir.Value, op_type: str) -> tuple[oir.Value, ...] | None:
    """The operands of the node that makes x, if it has this type."""
    node = x.producer()
    if node is None or node.op_type != op_type:
        return None
    return tuple(value for value in node.inputs if value is not None)


def _is_zero(em: Emitter, x: oir.Value) -> bool:
    array = em.facts.constant(x)
    return array is not None and not _wide(array).any()


def _has_negative_special(array: np.ndarray) -> bool:
    """Whether an element is -0 or a NaN with a sign."""
    wide = _wide(array)
    return bool((np.signbit(wide) & ((wide == 0) | np.isnan(wide))).any())


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)
