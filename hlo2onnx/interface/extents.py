"""Evaluates texts of extents and constraints: "2*b + 1", "floor(s/2)", "b >= 3".

The texts come from files, so only arithmetic is allowed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from typing import TypeAlias

Values: TypeAlias = Mapping[str, int]
Number: TypeAlias = int | Fraction

_BINARY: Mapping[type[ast.operator], Callable[..., Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: Fraction,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitXor: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "floor": math.floor,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
    "non_negative": lambda number: max(number, 0),
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Eq: operator.eq,
    ast.GtE: operator.ge,
    ast.LtE: operator.le,
}


class Extent:
    """An extent with symbols.

    Args:
        text: The expression.
        names: Symbols that are not identifiers, such as "params/w_dim0".

    Raises:
        ValueError: The text is not an expression of extents.
    """

    def __init__(self, text: str, names: Collection[str] = ()) -> None:
        self.text = text
        if text in names:
            self._node: ast.expr = ast.Name(text)
        else:
            self._node = _parsed(text)
        self.symbols = {item.id for item in _symbols(self._node)}

    def value(self, values: Values) -> int | None:
        """The extent as a number; None if a symbol has no value.

        Raises:
            ValueError: The expression has no value.
        """
        if not values.keys() >= self.symbols:
            return None
        return int(_evaluated(self._node, values))

    def solve(self, value: int, known: Values) -> tuple[str, int] | None:
        """The one unknown symbol of an extent such as "b" or "2*b + 1", and its value if the extent
        has this value; None for other extents.

        Args:
            known: Other symbols.

        Raises:
            ValueError: No integer fits.
        """
        unknown = self.symbols - known.keys()
        if len(unknown) != 1 or not _is_linear(self._node):
            return None
        (name,) = unknown
        offset, one = (_evaluated(self._node, {**known, name: number}) for number in (0, 1))
        if one == offset:
            return None
        found = Fraction(value - offset, one - offset)
        if found.denominator != 1:
            raise ValueError(f"{value} is not {self.text} for any {name}")
        return name, int(found)


def holds(constraint: str, values: Values) -> bool:
    """Whether a constraint such as "a >= b" holds. True if a symbol has no value.

    Raises:
        ValueError: The text is not a constraint.
    """
    node = _parsed(constraint)
    if not (
        isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS
    ):
        raise ValueError(f"{constraint!r} is not a constraint of extents")
    if not values.keys() >= {item.id for item in _symbols(node)}:
        return True
    left, right = (_evaluated(side, values) for side in (node.left, node.comparators[0]))
    return _COMPARISONS[type(node.ops[0])](left, right)


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"{text!r} is not an expression of extents") from error


def _symbols(node: ast.AST) -> list[ast.Name]:
    functions = [item.func for item in ast.walk(node) if isinstance(item, ast.Call)]
    names = [item for item in ast.walk(node) if isinstance(item, ast.Name)]
    return [item for item in names if item not in functions]


def _evaluated(node: ast.expr, values: Values) -> Number:
    try:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return values[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -_evaluated(operand, values)
            case ast.BinOp(left=left, op=binary, right=right):
                return _BINARY[type(binary)](_evaluated(left, values), _evaluated(right, values))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return _FUNCTIONS[name.lower()](*(_evaluated(item, values) for item in arguments))
    except (KeyError, TypeError, ArithmeticError) as error:
        raise ValueError(f"{ast.unparse(node)} has no value") from error
    raise ValueError(f"{ast.unparse(node)} is not an expression of extents")


def _is_linear(node: ast.expr) -> bool:
    """Whether an expression is a sum of multiples of symbols."""
    match node:
        case ast.Constant() | ast.Name():
            return True
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_linear(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return _is_linear(left) and _is_linear(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            is_multiple = not (_symbols(left) and _symbols(right))
            return is_multiple and _is_linear(left) and _is_linear(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _is_linear(left) and not _symbols(right)
    return False
