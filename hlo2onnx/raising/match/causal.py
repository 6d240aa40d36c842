"""Masks of attention that hide the keys that follow a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import onnx_ir as oir
import sympy

from hlo2onnx.ir.dims import Expression, expression, is_nonnegative, product
from hlo2onnx.ir.extents import noted_extent
from hlo2onnx.ir.values import INTEGERS, Dim, const_of, dtype_of, shape_of
from hlo2onnx.raising.match.views import both_orders, first, maker_of, operands

_MOVES = frozenset({"Expand", "Reshape", "Squeeze", "Unsqueeze"})
_NUMBERS = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_LEAST_BITS = 32
"""Signed integers of at least this many bits hold positions and their differences; so do floats,
exactly below 2^24."""

_COMPARISONS: Mapping[str, tuple[int, int, str]] = {
    "LessOrEqual": (0, 0, "Greater"),
    "Less": (0, 1, "GreaterOrEqual"),
    "GreaterOrEqual": (1, 0, "Less"),
    "Greater": (1, 1, "LessOrEqual"),
}
"""The operand that is not larger, 1 if it is smaller, and the opposite."""


class Causal(NamedTuple):
    """A mask that hides the keys that follow a query.

    Attributes:
        window: The number of keys that a query sees, itself included; None for all.
        is_all: Whether it hides no other keys.
    """

    window: int | None
    is_all: bool


class _Bounds(NamedTuple):
    """The keys j that query i sees, of `new` queries: i + low <= j <= i + high; None for all."""

    low: Expression | None
    high: Expression | None


def causal_mask(mask: oir.Value, new: Dim, total: Dim) -> Causal | None:
    """What a mask, (..., new, total), hides; None if it may show keys that follow a query.

    The queries are the last of `total` positions.
    """
    last = expression(total) - expression(new)
    found = [_bounds(part, new, total) for part in _parts(_condition(mask))]
    bounds = [each for each in found if each is not None]
    highs = [last - each.high for each in bounds if each.high is not None]
    if not any(is_nonnegative(high) for high in highs):
        return None
    windows = [sympy.expand(last - each.low + 1) for each in bounds if each.low is not None]
    is_all = len(bounds) == len(found) and all(is_nonnegative(-high) for high in highs)
    is_all &= all(window.is_Integer and window > 0 for window in windows)
    return Causal(min(map(int, windows)) if is_all and windows else None, is_all)


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


def _bounds(part: oir.Value, new: Dim, total: Dim) -> _Bounds | None:
    """Those of a comparison of positions or a constant."""
    known = const_of(part)
    if known is not None:
        is_whole = known.dtype == np.bool_ and known.shape[-2:] == (new, total)  # or it broadcasts
        return _bounds_of(known.reshape(-1, *known.shape[-2:])) if is_whole else None
    negated = maker_of(part, "Not")
    node = maker_of(part if negated is None else first(negated), *_COMPARISONS)
    if node is None:
        return None
    kind = node.op_type if negated is None else _COMPARISONS[node.op_type][2]
    smaller, strict, _ = _COMPARISONS[kind]
    for keys, queries in both_orders(node):
        row, column = shape_of(keys), shape_of(queries)
        is_row = row[-1:] == (total,) and product(row) == total
        is_column = column[-2:] == (new, 1) and product(column) == new
        key, query = _first(keys), _first(queries)
        if is_row and is_column and key is not None and query is not None:
            if keys is operands(node)[smaller]:
                return _Bounds(None, sympy.expand(query - key - strict))
            return _Bounds(sympy.expand(query - key + strict), None)
    return None


def _bounds_of(mask: np.ndarray) -> _Bounds | None:
    """Those of a constant, (masks, new, total); None if it is no causal mask, with a window or
    without. One that hides other keys, too, sees less than all keys up to the query."""
    _, new, total = mask.shape
    last = total - new
    if not mask.size or (mask & ~np.tril(np.ones((new, total), np.bool_), last)).any():
        return None
    width = int(mask.sum(-1).max())
    low = last - width + 1
    is_band = (mask == np.triu(np.tril(np.ones((new, total), np.bool_), last), low)).all()
    if not is_band:
        return _Bounds(None, sympy.Integer(last - 1))
    return _Bounds(None if width == total else sympy.Integer(low), sympy.Integer(last))


def _first(x: oir.Value) -> Expression | None:
    """The first of consecutive integers; None for other values."""
    known, dtype = const_of(x), dtype_of(x)
    is_float = dtype in (oir.DataType.FLOAT, oir.DataType.DOUBLE)
    is_signed = dtype in INTEGERS and dtype.is_signed()
    if not is_float and not (is_signed and dtype.bitwidth >= _LEAST_BITS):
        return None
    if known is not None:
        flat = known.reshape(-1)
        is_run = flat.size > 0 and (flat == flat[0] // 1 + np.arange(flat.size)).all()
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
        case "Slice", (whole, start, _, _):
            begin, skipped = _first(whole), _first(start)
            rest = expression(product(shape_of(whole))) - expression(product(shape_of(x)))
            # A start that is negative, and counts from the end, skips another number of rows.
            if begin is not None and skipped is not None:
                is_inside = is_nonnegative(skipped) or sympy.expand(rest - skipped) == 0
                return begin + skipped if is_inside else None
        case "Add" | "Sub" as kind, (left, right):
            begin, shift = _first(left), _first(right)
            is_shift = 1 in (product(shape_of(right)), kind == "Add" and product(shape_of(left)))
            if is_shift and begin is not None and shift is not None:
                return begin + shift if kind == "Add" else begin - shift
    return None
