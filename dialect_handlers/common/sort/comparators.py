"""Comparators by name: the keys that a comparator of sort or top-k orders by.

A comparator takes the arguments (lhs_0, rhs_0, lhs_1, rhs_1, ...) and tells whether lhs comes
before rhs. `sort_keys` knows it where it compares one and the same function of both sides, or
several of them in turn: lhs_0 < rhs_0, or they are equal and lhs_1 > rhs_1, ...
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import permutations

from jaxlib.mlir import ir

from dialect_handlers.common.region_expressions import Expressions
from hlo2onnx.frontend.mlir.types import element_type
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.lowering.emitter import Emitter


class Order(Enum):
    """How numbers compare.

    NUMBERS: -0 equals +0; all NaN are equal and greater than all numbers. This is JAX's order of
    sorting, and XLA's order for a comparator without a rule for NaN.
    TOTAL: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.
    """

    NUMBERS = auto()
    TOTAL = auto()


@dataclass(frozen=True)
class SortKey:
    """One function that a comparator compares of both sides.

    Attributes:
        value: The value of the comparator's block that is the function of lhs.
        order: How the values compare.
        descending: Whether the greater one comes first.
    """

    value: MlirValue
    order: Order
    descending: bool


def sort_keys(em: Emitter, block: ir.Block) -> list[SortKey] | None:
    """The keys of a comparator, the most significant first; None if it has none.

    LE and GE count as LT and GT, since no element comes before itself.
    """
    expressions = Expressions(em.constants, em.context.functions)
    (result,) = expressions.of_block(block)
    return _Reader(expressions).keys(result)


class _Reader:
    """Parses the expression of a comparator."""

    def __init__(self, expressions: Expressions) -> None:
        self._in = expressions

    def keys(self, number: int) -> list[SortKey] | None:
        """The keys of a comparison or of a lexicographic chain of comparisons."""
        single = self._single(number)
        if single is not None:
            return [single]
        for equal, before, rest in self._chains(number):
            first, others = self._single(before), None
            if first is not None and equal in self._equalities(before):
                others = self.keys(rest)
            if first is not None and others is not None:
                return [first, *others]
        return None

    def _chains(self, number: int) -> Iterator[tuple[int, int, int]]:
        """All ways to read an expression as "before, or equal and rest"; select(equal, rest,
        before) says the same."""
        label, operands = self._in.term(number)
        if label == "or":
            for before, both in permutations(operands):
                inner, parts = self._in.term(both)
                if inner == "and":
                    for equal, rest in permutations(parts):
                        yield equal, before, rest
        if label == "select":
            condition, chosen, otherwise = operands
            inner, parts = self._in.term(condition)
            if inner in ("compare NE", "compare NE TOTALORDER"):
                condition = self._in.node(inner.replace("NE", "EQ"), *parts)
                chosen, otherwise = otherwise, chosen
            yield condition, otherwise, chosen

    def _equalities(self, before: int) -> tuple[int, int]:
        """The expressions for equality of the two sides that `before` compares."""
        _, sides = self._in.term(before)
        return self._in.node("compare EQ", *sides), self._in.node("compare EQ TOTALORDER", *sides)

    def _single(self, number: int) -> SortKey | None:
        """The key of f(lhs) < f(rhs) or f(rhs) < f(lhs)."""
        label, operands = self._in.term(number)
        if not isinstance(label, str) or not label.startswith(("compare LT", "compare LE")):
            return None
        low, high = operands
        if self._in.swapped(low) != high:
            return None
        descending = all(index % 2 for index in self._in.arguments_of(low))
        lhs = high if descending else low
        read = self._in.arguments_of(lhs)
        if not read or any(index % 2 for index in read):
            return None
        plain = self._without_canonicalization(lhs)
        total = label.endswith("TOTALORDER") and plain == lhs
        value = self._in.values.get(plain)
        if value is None:
            return None
        return SortKey(value, Order.TOTAL if total else Order.NUMBERS, descending)

    def _without_canonicalization(self, number: int) -> int:
        """x for JAX's select(x != x, NaN, select(x == 0, 0, x)): its total order is the order of
        numbers. Other expressions stay unchanged."""
        inner = self._third(self._third(number))
        if inner is None or self._in.values.get(inner) is None:
            return number
        element, node = element_type(self._in.values[inner].type), self._in.node
        nan, zero = self._in.constant(math.nan, element), self._in.constant(0.0, element)
        one_zero = node("select", node("compare EQ", inner, zero), zero, inner)
        canonical = node("select", node("compare NE", inner, inner), nan, one_zero)
        return inner if canonical == number else number

    def _third(self, number: int | None) -> int | None:
        """The last operand of a select."""
        label, operands = ("", ()) if number is None else self._in.term(number)
        return operands[2] if label == "select" else None
