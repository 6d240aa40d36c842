"""Extents that are expressions: "b", "2*b + 1", "floor(s/2)".

An extent is an int or an `onnx_ir.SymbolicDim` over a SymPy expression in canonical form, so that
equal extents compare equal. The symbols are integers, positive ones where the program says so.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import onnx_ir as oir
import sympy

from hlo2onnx.errors import InternalError, LoadError
from hlo2onnx.ir.values import Dim

Expression = Any
"""A `sympy.Expr`, whose package has no type hints."""


def expression(dim: Dim) -> Expression:
    """The SymPy expression of an extent. An unknown extent is a new symbol."""
    if isinstance(dim, int):
        return sympy.Integer(dim)
    known = dim._expr  # onnx_ir offers arithmetic, but not the expression
    return sympy.Dummy("unknown", integer=True, nonnegative=True) if known is None else known


@lru_cache(maxsize=1 << 14)
def dim_of(formula: Expression) -> Dim:
    """The extent of an expression: an int where it is a number."""
    expanded = sympy.expand(sympy.expand(formula).replace(sympy.floor, _floor))
    return int(expanded) if expanded.is_Integer else oir.SymbolicDim(expanded)


def _floor(argument: Expression) -> Expression:
    """floor((p + c) / d) with 0 <= c < d and integers moved out of the floor."""
    numerator, denominator = sympy.together(argument).as_numer_denom()
    constant, rest = sympy.expand(numerator).as_coeff_Add()
    if not denominator.is_Integer:
        return sympy.floor(argument)
    whole = constant // denominator
    return whole + sympy.floor((rest + constant - whole * denominator) / denominator)


def symbol(name: str, positive: bool) -> oir.SymbolicDim:
    """An extent of this name; at least 1, or at least 0."""
    sign = {"positive": True} if positive else {"nonnegative": True}
    return oir.SymbolicDim(sympy.Symbol(name, integer=True, **sign))


def canonical(dim: Dim) -> Dim:
    """The extent in canonical form, after arithmetic with `+`, `-`, `*`, `//` of SymbolicDims."""
    return dim if isinstance(dim, int) or dim.value is None else dim_of(expression(dim))


class Shapes:
    """Makes the shapes of a model's values. Values of the same static shape share it."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], oir.Shape] = {}

    def shape(self, dims: Iterable[Dim]) -> oir.Shape:
        """The shape with these extents."""
        given = tuple(dims)
        for dim in given:
            if not isinstance(dim, int):
                return oir.Shape(map(canonical, given))
        static = cast("tuple[int, ...]", given)
        known = self._known.get(static)
        if known is None:
            known = self._known[static] = oir.Shape(static, frozen=True)
        return known


def product(dims: Iterable[Dim]) -> Dim:
    """How many elements these extents make."""
    factors = list(dims)
    if is_static(factors):
        return math.prod(fixed(factors))
    return dim_of(math.prod(map(expression, factors)))


def multiple(dim: Dim, factor: Dim) -> Dim:
    """The product of two extents."""
    return _combined([dim, factor], math.prod)


def total(*terms: Dim) -> Dim:
    """The sum of extents."""
    return _combined(terms, sum)


def difference(dim: Dim, other: Dim) -> Dim:
    """The first extent less the second."""
    return _combined([dim, other], lambda pair: pair[0] - pair[1])


def _combined(dims: Sequence[Dim], function: Callable[[Sequence[Any]], Any]) -> Dim:
    """A function of extents: a number for numbers, an unknown extent if one is unknown."""
    if all(isinstance(dim, int) for dim in dims):
        return int(function(dims))
    if not is_known(dims):
        return oir.SymbolicDim(None)
    return dim_of(sympy.sympify(function([expression(dim) for dim in dims])))


def fixed(dims: Collection[Dim]) -> list[int]:
    """Static extents as numbers.

    Raises:
        InternalError: One is symbolic.
    """
    numbers = [dim for dim in dims if isinstance(dim, int)]
    if len(numbers) < len(dims):
        raise InternalError(f"an extent of {list(dims)} is symbolic")
    return numbers


def quotient(dim: Dim, divisor: Dim) -> Dim:
    """An extent divided by a divisor of which it is a multiple."""
    if isinstance(dim, int) and isinstance(divisor, int):
        return dim // divisor
    return dim_of(expression(dim) / expression(divisor))


def is_static(dims: Iterable[Dim]) -> bool:
    """Whether all extents are numbers."""
    return all(isinstance(dim, int) for dim in dims)


def is_known(dims: Iterable[Dim]) -> bool:
    """Whether each extent is a number or a formula. Others compare equal, and may differ."""
    return all(isinstance(dim, int) or dim.value is not None for dim in dims)


def is_positive(dim: Dim) -> bool:
    """Whether the extent is at least 1 for all values of its symbols."""
    if isinstance(dim, int):
        return dim > 0
    formula = expression(dim)
    # Of whole numbers those above 0 are at least 1.
    return formula.is_positive is True or _lowest(formula).is_positive is True


def not_negative(dim: Dim) -> Dim:
    """The extent, or 0 where it is negative."""
    if isinstance(dim, int):
        return max(dim, 0)
    formula = expression(dim)
    return dim if is_nonnegative(formula) else dim_of(sympy.Max(formula, 0))


def at_most(low: Dim, high: Dim) -> bool:
    """Whether `low <= high` for all values of the symbols."""
    if isinstance(low, int) and isinstance(high, int):
        return low <= high
    return is_nonnegative(expression(high) - expression(low))


class Counter(sympy.Dummy):  # type: ignore[misc]
    """A symbol for each of 0, 1, 2, ..., `last`."""

    last: Expression


def trip_number(name: str, last: Dim) -> oir.SymbolicDim:
    """A symbol for the number of a loop's trip; `last` is the number of the last trip."""
    made = Counter(name, integer=True, nonnegative=True)
    made.last = expression(last)
    return oir.SymbolicDim(made)


def is_nonnegative(formula: Expression) -> bool:
    """Whether it is at least 0 for all values of its symbols."""
    return _lowest(sympy.expand(formula)).is_nonnegative is True


def _lowest(formula: Expression) -> Expression:
    """A formula without floors and counters that is at most this one: floor(n / d) of whole
    numbers lies between (n + 1 - d) / d and n / d."""
    for part in formula.atoms(Counter):
        factor = formula.coeff(part)
        rest = sympy.expand(formula - factor * part)
        if factor.is_Integer and not rest.has(part):
            return _lowest(sympy.expand(rest + (factor * part.last if factor < 0 else 0)))
    for part in formula.atoms(sympy.floor):
        factor = formula.coeff(part)
        numerator, denominator = sympy.together(part.args[0]).as_numer_denom()
        rest = sympy.expand(formula - factor * part)
        if not (factor.is_Rational and denominator.is_Integer) or rest.has(part):
            continue
        slack = denominator - 1 if factor > 0 else 0
        return _lowest(sympy.expand(rest + factor * (numerator - slack) / denominator))
    return formula


def evaluate(dim: Dim, values: Mapping[str, int]) -> int | None:
    """The extent as a number, for these values of its symbols; None if one is missing."""
    formula = expression(dim)
    if any(item.name not in values for item in formula.free_symbols):
        return None
    found = formula.subs({item: values[item.name] for item in formula.free_symbols})
    return int(found)


def free_symbols(dims: Iterable[Dim]) -> list[str]:
    """The names of the symbols in these extents, in the order in which they come."""
    names: dict[str, None] = {}
    for dim in dims:
        names |= dict.fromkeys(sorted(item.name for item in expression(dim).free_symbols))
    return list(names)


# -- JAX's spelling ----------------------------------------------------------------------------


def parse(text: str) -> Dim:
    """The extent for a text of `jax.export`: "2*b + 1", "floordiv(s, 2)", "max(b, s)".

    Its symbols are at least 1, as JAX's are.

    Raises:
        LoadError: The text is not such an expression.
    """
    try:
        return dim_of(_parsed(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, KeyError, TypeError) as error:
        raise LoadError(f"{text!r} is not an expression of dimensions") from error


_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.Pow: lambda x, y: x**y,
    ast.BitXor: lambda x, y: x**y,
    ast.FloorDiv: lambda x, y: sympy.floor(x / y),
    ast.Mod: sympy.Mod,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "floordiv": lambda x, y: sympy.floor(x / y),
    "mod": sympy.Mod,
    "max": sympy.Max,
    "min": sympy.Min,
    "non_negative": lambda x: sympy.Max(x, 0),
}


def _parsed(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int(number)):
            return sympy.Integer(number)
        case ast.Name(id=name):
            return sympy.Symbol(name, integer=True, positive=True)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_parsed(operand)
        case ast.BinOp(left=left, op=operator, right=right):
            return _OPERATORS[type(operator)](_parsed(left), _parsed(right))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*map(_parsed, arguments))
    raise TypeError("neither a number, nor a name, nor arithmetic")
