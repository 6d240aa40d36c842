"""Integer arithmetic of programs on numbers and on expressions of extents.

An item is an int, a bool or a SymPy expression; None is an unknown result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import onnx_ir as oir
import sympy

from hlo2onnx.ir.dims import Counter, is_nonnegative
from hlo2onnx.ir.ranges import range_of_type

Item = Any
"""An int, a bool or a SymPy expression."""

Function = Callable[..., Item | None]
"""A function of items; None where its result is unknown."""

_LEAST_BITS = 32
"""Integers of at least this many bits hold extents plus or minus `_LITTLE`."""

_LITTLE = 1 << 16


def fits(items: Iterable[Item], dtype: oir.DataType) -> bool:
    """Whether these are values of the type. Sums of booleans are not. A multiple of a trip counter
    may be too large."""
    if dtype == oir.DataType.BOOL:
        return all(isinstance(item, bool) for item in items)
    low, high = range_of_type(dtype)
    for item in items:
        if isinstance(item, sympy.Basic):
            if dtype.bitwidth < _LEAST_BITS or not (low < 0 or is_nonnegative(item)):
                return False
            if item.has(Counter) and not _is_near_an_extent(item):
                return False
        elif not low <= item <= high:
            return False
    return True


def _is_near_an_extent(formula: Item) -> bool:
    """Whether it is a sum of plain symbols and a small number."""
    constant, rest = formula.as_coeff_Add()
    terms = sympy.Add.make_args(rest)
    return abs(constant) <= _LITTLE and all(
        (term if term.is_Symbol else -term).is_Symbol for term in terms
    )


def plain(item: Item) -> Item:
    """The item, as a Python number if the expression is a number."""
    if isinstance(item, sympy.Basic):
        expanded = sympy.expand(item)
        return int(expanded) if expanded.is_Integer else expanded
    return item


def _number(item: Item) -> Item:
    return sympy.sympify(int(item) if isinstance(item, bool) else item)


def _of_naturals(function: Function) -> Function:
    """A function of x >= 0 and y > 0, for which truncation is floor; None for other items."""

    def apply(x: Item, y: Item) -> Item | None:
        x, y = sympy.sympify(x), sympy.sympify(y)
        return function(x, y) if x.is_nonnegative and y.is_positive else None

    return apply


def _of_numbers(function: Function) -> Function:
    """A function of numbers; None for expressions."""
    return lambda x, y: function(x, y) if isinstance(x, int) and isinstance(y, int) else None


def _sign(x: Item) -> Item | None:
    x = sympy.sympify(x)
    return 1 if x.is_positive else -1 if x.is_negative else 0 if x.is_zero else None


def _at_least(x: Item, y: Item) -> bool | None:
    if isinstance(x, int) and isinstance(y, int):
        return x >= y
    difference = _number(x) - _number(y)
    if is_nonnegative(difference):
        return True
    return False if is_nonnegative(-difference - 1) else None


def _equal(x: Item, y: Item) -> bool | None:
    difference = sympy.expand(_number(x) - _number(y))
    if difference.is_zero is not None:
        return bool(difference.is_zero)
    apart = is_nonnegative(difference - 1) or is_nonnegative(-difference - 1)
    return False if apart else None


def _not(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict


def _greater(x: Item, y: Item) -> Item:
    return x if _at_least(x, y) else y if _at_least(y, x) else sympy.Max(x, y)


def _less(x: Item, y: Item) -> Item:
    return y if _at_least(x, y) else x if _at_least(y, x) else sympy.Min(x, y)


FORMULAS: Mapping[str, Function] = {
    "add": operator.add,
    "and": _of_numbers(operator.and_),
    "clamp": lambda low, x, high: _less(_greater(low, x), high),
    "convert": lambda x: int(x) if isinstance(x, bool) else x,
    "divide": _of_naturals(lambda x, y: sympy.floor(x / y)),
    "maximum": _greater,
    "minimum": _less,
    "multiply": operator.mul,
    "negate": operator.neg,
    "or": _of_numbers(operator.or_),
    "remainder": _of_naturals(sympy.Mod),
    "select": lambda p, x, y: x if p else y,
    "sign": _sign,
    "subtract": operator.sub,
    "compare EQ": _equal,
    "compare GE": _at_least,
    "compare GT": lambda x, y: _not(_at_least(y, x)),
    "compare LE": lambda x, y: _at_least(y, x),
    "compare LT": lambda x, y: _not(_at_least(x, y)),
    "compare NE": lambda x, y: _not(_equal(x, y)),
}
"""Results of StableHLO's ops on items, by their names in `hlo2onnx.lowering.block_evaluator`."""
