"""Patterns of expressions: trees with sums and products in any order and grouping.

    x = Name("x")
    Product(0.5, x, Sum(1.0, Op("Erf", Product(x, math.sqrt(0.5)))))

A name stands for the same value wherever it occurs. A number stands for a constant of one element
that is this number rounded to f32, within two units in the last place, or rounded to the half type
that the constant has in the program.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import onnx_ir as oir

from hlo2onnx.ir.facts import MOVES_DATA
from hlo2onnx.ir.notes import is_rounding_of, origin_of
from hlo2onnx.ir.values import const_number, const_of, is_constant
from hlo2onnx.raising.engine import Kind
from hlo2onnx.raising.match.views import operands
from hlo2onnx.raising.sources import CONSTANT, KEEP_CONSTANTS, NUMBERS, OTHER

ROUNDING = 2.5e-7
"""Largest relative difference of a constant from a pattern's number: two units in the last place of
f32, as 0.1 * 0.3 gives."""

COMMUTATIVE = frozenset(
    {"Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Max", "Min", "Mul", "Or",
     "Xor"}
)  # fmt: skip

COMPARISONS = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})

_KNOWN_BOOLEANS = MOVES_DATA | COMPARISONS | {CONSTANT, "And", "Cast", "Not", "Or"}
"""Operators whose elements the facts may know to be one boolean."""

Bindings = Mapping[str, oir.Value]
Places = tuple[int, ...]


class Pattern(ABC):
    """A set of expressions."""

    @abstractmethod
    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """Every way to match the value: the values of the names."""

    def fits(self, value: oir.Value) -> bool:
        """Whether there may be a match: a quick test, as most attempts end here."""
        return True


def match(pattern: Pattern, value: oir.Value) -> Bindings | None:
    """The values of a pattern's names in the first match; None if there is no match."""
    return next(all_matches(pattern, value), None)


def all_matches(pattern: Pattern, value: oir.Value) -> Iterator[Bindings]:
    """The values of a pattern's names in each match."""
    return pattern.matches(value, {}) if pattern.fits(value) else iter(())


@dataclass(frozen=True)
class Name(Pattern):
    """Any value."""

    name: str

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        if _agrees(bound, self.name, value):
            yield {**bound, self.name: value}


@dataclass(frozen=True)
class As(Pattern):
    """A pattern whose match gets a name."""

    name: str
    pattern: Pattern

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        if _agrees(bound, self.name, value):
            yield from self.pattern.matches(value, {**bound, self.name: value})

    def fits(self, value: oir.Value) -> bool:
        """See `Pattern.fits`."""
        return self.pattern.fits(value)


@dataclass(frozen=True)
class Boolean(Name):
    """Any booleans."""

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        if self.fits(value):
            yield from super().matches(value, bound)

    def fits(self, value: oir.Value) -> bool:
        """See `Pattern.fits`."""
        return value.dtype == oir.DataType.BOOL


@dataclass(frozen=True)
class Known(Name):
    """Any constant, which may be a weight."""

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        if self.fits(value):
            yield from super().matches(value, bound)

    def fits(self, value: oir.Value) -> bool:
        """See `Pattern.fits`."""
        return is_constant(value)


@dataclass(frozen=True)
class Constant(Name):
    """Any constant of one element."""

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        if self.fits(value):
            yield from super().matches(value, bound)

    def fits(self, value: oir.Value) -> bool:
        """See `Pattern.fits`."""
        return const_number(value) is not None


@dataclass(frozen=True)
class Literal(Name):
    """Operators whose results may be known to be one number; `all_are` decides."""

    item: float

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        if self.fits(value):
            yield {**bound, self.name: value}

    def fits(self, value: oir.Value) -> bool:
        """See `Pattern.fits`."""
        while (maker := value.producer()) is not None:
            if isinstance(self.item, bool):
                return maker.op_type in _KNOWN_BOOLEANS
            source = maker.inputs[0] if maker.op_type in KEEP_CONSTANTS else None
            if source is None:
                return False
            value = source
        array = const_of(value)
        return array is not None and array.size > 0 and bool(array.item(0) == self.item)

    def may_be_in(self, kind: Kind) -> bool:
        """Whether such a value may be an operand of a node."""
        if isinstance(self.item, bool):
            return not kind.sources.isdisjoint(_KNOWN_BOOLEANS)
        return (self.item if self.item in NUMBERS else OTHER) in kind.numbers


@dataclass(frozen=True)
class Number(Pattern):
    """A constant of one element."""

    number: float

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        if self.fits(value):
            yield bound

    def fits(self, value: oir.Value) -> bool:
        """See `Pattern.fits`."""
        found = const_number(value)
        if found is None:
            return False
        near = abs(found - self.number) <= ROUNDING * abs(self.number)
        return near or is_rounding_of(value, self.number)


class Op(Pattern):
    """An operator with operands in this order, or in any order if it is commutative."""

    def __init__(
        self, op_type: str, *operands: Pattern | float, rest: str = "", **attributes: int
    ) -> None:
        """`rest` names the result of an operator that may have more operands and any attributes.
        Otherwise these integer attributes must have these values; by default, ONNX has 0."""
        self.op_type = op_type
        self.operands = [_pattern(operand) for operand in operands]
        self.rest, self.attributes = rest, attributes
        self._orders: list[Sequence[Pattern]] = [self.operands]
        if op_type in COMMUTATIVE and self.operands != self.operands[::-1]:
            self._orders.append(self.operands[::-1])
        self._tests = [
            [(place, x) for place, x in enumerate(order) if not _fits_all(x)]
            for order in self._orders
        ]
        places = {x: place for place, x in enumerate(self.operands) if type(x) is Name}
        self._same = [
            (place, places[x])
            for place, x in enumerate(self.operands)
            if x in places and places[x] != place
        ]

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        node = _maker(value, self.op_type)
        if node is None:
            return
        inputs: Sequence[oir.Value | None] = node.inputs
        if self.rest:
            inputs, bound = inputs[: len(self.operands)], {**bound, self.rest: value}
        if len(inputs) != len(self.operands):
            return
        if any(node.attributes.get_int(name, 0) != x for name, x in self.attributes.items()):
            return
        for order in self._orders:
            yield from _in_order(order, inputs, bound)

    def fits(self, value: oir.Value) -> bool:
        """See `Pattern.fits`."""
        node = _maker(value, self.op_type)
        if node is None:
            return False
        inputs = node.inputs
        if len(inputs) < len(self.operands):
            return False
        for place, other in self._same:
            x, y = inputs[place], inputs[other]
            if x is not y and (x is None or y is None or not _is_same_number(x, y)):
                return False
        for tests in self._tests:
            for place, operand in tests:
                x = inputs[place]
                if x is None or not operand.fits(x):
                    break
            else:
                return True
        return False


class _Chain(Pattern):
    """A chain of an associative and commutative operator."""

    op_type: str

    def __init__(self, *operands: Pattern | float) -> None:
        self.operands = tuple(_pattern(operand) for operand in operands)
        self._tests = [operand for operand in self.operands if not _fits_all(operand)]

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        if self.fits(value):
            yield from self._of(tuple(range(len(self.operands))), value, bound)

    def fits(self, value: oir.Value) -> bool:
        """See `Pattern.fits`."""
        # There are many groupings, and most chains lack an operand.
        if _maker(value, self.op_type) is None:
            return False
        found = _terms(value, self.op_type, len(self.operands) - 1)
        for operand in self._tests:
            for x in found:
                if operand.fits(x):
                    break
            else:
                return False
        return True

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

    def fits(self, value: oir.Value) -> bool:
        """See `Pattern.fits`."""
        for pattern in self.patterns:  # noqa: SIM110  (most attempts end here)
            if pattern.fits(value):
                return True
        return False


def _pattern(item: Pattern | float) -> Pattern:
    return item if isinstance(item, Pattern) else Number(item)


def _fits_all(pattern: Pattern) -> bool:
    """Whether `fits` tells nothing."""
    return type(pattern).fits is Pattern.fits


def _agrees(bound: Bindings, name: str, value: oir.Value) -> bool:
    """Whether a name may stand for a value."""
    known = bound.get(name, value)
    return known is value or _is_same_number(known, value)


def _is_same_number(one: oir.Value, other: oir.Value) -> bool:
    """Whether two constants are the same number, perhaps in other shapes."""
    if one.const_value is None or other.const_value is None or one.dtype != other.dtype:
        return False
    number = const_number(one)
    return number is not None and repr(number) == repr(const_number(other))


def _maker(value: oir.Value, op_type: str) -> oir.Node | None:
    node = value.producer()
    return node if node is not None and node.op_type == op_type and not node.domain else None


def _terms(value: oir.Value, op_type: str, nodes: int) -> list[oir.Value]:
    """The operands of a chain with at most this many nodes on a path."""
    node = _maker(value, op_type)
    if node is None:
        return []
    read = operands(node)
    if nodes > 1:
        read += [x for each in read for x in _terms(each, op_type, nodes - 1)]
    return read


def _in_order(
    patterns: Sequence[Pattern], values: Sequence[oir.Value | None], bound: Bindings
) -> Iterator[Bindings]:
    for place, pattern in enumerate(patterns):
        value = values[place]
        if value is None:
            return
        if type(pattern) is not Name:
            for so_far in pattern.matches(value, bound):
                yield from _in_order(patterns[place + 1 :], values[place + 1 :], so_far)
            return
        if not _agrees(bound, pattern.name, value):  # as most do: without a generator
            return
        bound = {**bound, pattern.name: value}
    yield bound


@functools.cache
def _halves(places: Places) -> list[tuple[Places, Places]]:
    """Every way to divide the operands between two nodes."""
    return [
        (chosen, tuple(place for place in places if place not in chosen))
        for count in range(1, len(places))
        for chosen in combinations(places, count)
    ]
