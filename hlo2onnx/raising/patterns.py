"""Patterns of expressions: trees with sums and products in any order and grouping.

    x = Name("x")
    Product(0.5, x, Sum(1.0, Op("Erf", Product(x, math.sqrt(0.5)))))

A name stands for the same value wherever it occurs. A number stands for a constant of one element
that is this number rounded to f32, give or take a last place, or rounded to the half type that the
constant has in the program.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import onnx_ir as oir

from hlo2onnx.ir.notes import is_rounding_of, origin_of
from hlo2onnx.ir.values import const_number
from hlo2onnx.raising.match.views import operands

ROUNDING = 2.5e-7
"""Largest relative difference of a constant from a pattern's number: two units in the last place of
f32, as 0.1 * 0.3 gives."""

Bindings = Mapping[str, oir.Value]
Places = tuple[int, ...]


class Pattern(ABC):
    """A set of expressions."""

    @abstractmethod
    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """Every way to match the value: the values of the names."""


def match(pattern: Pattern, value: oir.Value) -> Bindings | None:
    """The values of a pattern's names in the first match; None if there is no match."""
    return next(pattern.matches(value, {}), None)


@dataclass(frozen=True)
class Name(Pattern):
    """Any value."""

    name: str

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        if bound.get(self.name, value) is value:
            yield {**bound, self.name: value}


@dataclass(frozen=True)
class As(Pattern):
    """A pattern whose match gets a name."""

    name: str
    pattern: Pattern

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        for named in Name(self.name).matches(value, bound):
            yield from self.pattern.matches(value, named)


@dataclass(frozen=True)
class Constant(Name):
    """Any constant of one element."""

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        if const_number(value) is not None:
            yield from super().matches(value, bound)


@dataclass(frozen=True)
class Number(Pattern):
    """A constant of one element."""

    number: float

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        found = const_number(value)
        if found is None:
            return
        near = abs(found - self.number) <= ROUNDING * abs(self.number)
        if near or is_rounding_of(value, self.number):
            yield bound


class Op(Pattern):
    """An operator with operands in this order."""

    def __init__(self, op_type: str, *operands: Pattern | float) -> None:
        self.op_type = op_type
        self.operands = [_pattern(operand) for operand in operands]

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        node = _maker(value, self.op_type)
        if node is not None and len(node.inputs) == len(self.operands):
            for operands in self._orders():
                yield from _in_order(operands, node.inputs, bound)

    def _orders(self) -> Iterable[Sequence[Pattern]]:
        return (self.operands,)


class _Chain(Pattern):
    """A chain of an associative and commutative operator."""

    op_type: str

    def __init__(self, *operands: Pattern | float) -> None:
        self.operands = tuple(_pattern(operand) for operand in operands)
        self._has_constant = any(isinstance(x, Constant | Number) for x in self.operands)

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        # There are many groupings, and most chains have no constant.
        nodes = len(self.operands) - 1
        if not self._has_constant or _reads_constant(value, self.op_type, nodes):
            yield from self._of(tuple(range(len(self.operands))), value, bound)

    def _of(self, places: Places, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        if len(places) == 1:
            yield from self.operands[places[0]].matches(value, bound)
            return
        node = _maker(value, self.op_type)
        if node is None:
            return
        left, right = operands(node)
        for here, there in _halves(places):
            for so_far in self._of(here, left, bound):
                yield from self._of(there, right, so_far)


class Product(_Chain):
    """A product, with factors in any order and grouping."""

    op_type = "Mul"


class Sum(_Chain):
    """A sum, with terms in any order and grouping."""

    op_type = "Add"


class Origin(Pattern):
    """The result of an expanded op of the program, such as chlo.erfc."""

    def __init__(self, op_name: str, *operands: Pattern | float) -> None:
        self.op_name = op_name
        self.operands = [_pattern(operand) for operand in operands]

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        known = origin_of(value)
        if known is not None and known[0] == self.op_name:
            yield from _in_order(self.operands, known[1], bound)


class Either(Pattern):
    """One of several patterns."""

    def __init__(self, *patterns: Pattern) -> None:
        self.patterns = patterns

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        for pattern in self.patterns:
            yield from pattern.matches(value, bound)


class Extreme(Op):
    """Max or Min of two operands in any order."""

    def _orders(self) -> Iterable[Sequence[Pattern]]:
        return permutations(self.operands)


def _pattern(item: Pattern | float) -> Pattern:
    return item if isinstance(item, Pattern) else Number(item)


def _maker(value: oir.Value, op_type: str) -> oir.Node | None:
    node = value.producer()
    return node if node is not None and node.op_type == op_type and not node.domain else None


def _reads_constant(value: oir.Value, op_type: str, nodes: int) -> bool:
    """Whether a constant is among the operands of a chain of at most so many nodes."""
    node = _maker(value, op_type) if nodes else None
    if node is None:
        return value.const_value is not None
    return any(x is not None and _reads_constant(x, op_type, nodes - 1) for x in node.inputs)


def _in_order(
    patterns: Sequence[Pattern], values: Sequence[oir.Value | None], bound: Bindings
) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    if values[0] is not None:
        for so_far in patterns[0].matches(values[0], bound):
            yield from _in_order(patterns[1:], values[1:], so_far)


@functools.cache
def _halves(places: Places) -> list[tuple[Places, Places]]:
    """Every way to divide the operands between two nodes."""
    return [
        (chosen, tuple(place for place in places if place not in chosen))
        for count in range(1, len(places))
        for chosen in combinations(places, count)
    ]
