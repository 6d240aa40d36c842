"""Floats whose zeros and NaN have no negative sign, so that their total order is that of numbers.

JAX makes them so before it compares in total order: `jnp.searchsorted`, and with it `jnp.interp`
and `jnp.histogram`.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.facts import MOVES_DATA
from hlo2onnx.ir.values import const_of
from hlo2onnx.lowering.emitter import Emitter


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
