"""Masks of attention that hide the keys that follow a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx_ir as oir
import sympy

from hlo2onnx.ir.dims import Expression, expression, is_nonnegative, product
from hlo2onnx.ir.extents import noted_extent
from hlo2onnx.ir.values import INTEGERS, Dim, const_of, dtype_of, shape_of
from hlo2onnx.raising.match.views import first, maker_of, operands

_MOVES = frozenset({"Expand", "Reshape", "Squeeze", "Unsqueeze"})
_NUMBERS = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_LEAST_BITS = 32
"""Signed integers of at least this many bits hold positions and their differences."""

_COMPARISONS: Mapping[str, tuple[int, int]] = {
    "LessOrEqual": (0, 0),
    "Less": (0, 1),
    "GreaterOrEqual": (1, 0),
    "Greater": (1, 1),
}
"""The operand that is the position of a key, and 1 if equal positions are hidden."""


def is_causal(mask: oir.Value, new: Dim, total: Dim) -> bool | None:
    """Whether a mask, (..., new, total), hides the keys that follow a query; None if it may not.

    The queries are the last of `total` positions.

    Returns:
        True if it hides no other keys, False if it may.
    """
    verdicts = [_is_causal(part, new, total) for part in _parts(_condition(mask))]
    if all(verdict is None for verdict in verdicts):
        return None
    return verdicts == [True]


def _condition(mask: oir.Value) -> oir.Value:
    """Which keys a query sees: the mask, or the condition of a Where that makes it."""
    where = maker_of(_unmoved(mask), "Where")
    if where is None or dtype_of(mask) == oir.DataType.BOOL:
        return mask
    shown, visible, hidden = operands(where)
    numbers = [const_of(x) for x in (visible, hidden)]
    is_mask = all(x is not None and x.size == 1 for x in numbers) and (
        numbers[0].item() == 0 and numbers[1].item() < -(2.0**96)  # type: ignore[union-attr]
    )
    return shown if is_mask else mask


def _unmoved(x: oir.Value) -> oir.Value:
    """x before moves that keep its last two axes."""
    while (node := maker_of(x, *_MOVES)) is not None:
        if shape_of(first(node))[-2:] != shape_of(x)[-2:]:
            break
        x = first(node)
    return x


def _parts(condition: oir.Value) -> Iterator[oir.Value]:
    """The operands of its Ands."""
    condition = _unmoved(condition)
    both = maker_of(condition, "And")
    if both is None:
        yield condition
    else:
        for operand in operands(both):
            yield from _parts(operand)


def _is_causal(part: oir.Value, new: Dim, total: Dim) -> bool | None:
    """As `is_causal`, for a comparison of positions or a constant."""
    known, last = const_of(part), expression(total) - expression(new)
    if known is not None:
        if known.dtype != np.bool_ or known.shape[-2:] != (new, total):  # or it broadcasts
            return None
        causal = np.tril(np.ones(known.shape[-2:], np.bool_), int(last))
        return bool((known == causal).all()) if not (known & ~causal).any() else None
    node = maker_of(part, *_COMPARISONS)
    if node is None:
        return None
    which, strict = _COMPARISONS[node.op_type]
    keys, queries = operands(node)[which], operands(node)[1 - which]
    row, column = shape_of(keys), shape_of(queries)
    is_row = row[-1:] == (total,) and product(row) == total
    is_column = column[-2:] == (new, 1) and product(column) == new
    key, query = _first(keys), _first(queries)
    if not (is_row and is_column) or key is None or query is None:
        return None
    seen = sympy.expand(query - key - strict)
    if seen == last:
        return True
    return False if is_nonnegative(last - seen) else None


def _first(x: oir.Value) -> Expression | None:
    """The first of consecutive integers; None for other values."""
    known, dtype = const_of(x), dtype_of(x)
    if dtype not in INTEGERS or not dtype.is_signed() or dtype.bitwidth < _LEAST_BITS:
        return None
    if known is not None:
        flat = known.reshape(-1)
        is_run = flat.size > 0 and (np.diff(flat.astype(np.int64)) == 1).all()
        return sympy.Integer(int(flat[0])) if is_run else None
    dim, node = noted_extent(x), x.producer()
    if dim is not None:
        return expression(dim)
    if node is None:
        return None
    if node.op_type in _NUMBERS:
        return _first(first(node))
    match node.op_type, operands(node):
        case "Range", (start, _, step) if (one := const_of(step)) is not None and one.item() == 1:
            return _first(start)
        case "Add" | "Sub" as kind, (left, right):
            begin, shift = _first(left), _first(right)
            is_shift = 1 in (product(shape_of(right)), kind == "Add" and product(shape_of(left)))
            if is_shift and begin is not None and shift is not None:
                return begin + shift if kind == "Add" else begin - shift
    return None
