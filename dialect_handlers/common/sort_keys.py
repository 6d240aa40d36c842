"""Sorting by keys: the keys that a comparator orders by, and the permutation that TopK gives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import permutations

import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from dialect_handlers.common.bits import total_order_key
from dialect_handlers.common.regions import Expressions
from hlo2onnx.frontend.mlir.types import element_type
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.notes import keep_rounding
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import FLOATS, Dim, dtype_of, shape_of
from hlo2onnx.lowering.emitter import Emitter

# -- comparators by name: the keys that a comparator of sort or top-k orders by ---------------
#
# A comparator takes the arguments (lhs_0, rhs_0, lhs_1, rhs_1, ...) and tells whether lhs comes
# before rhs. `sort_keys` knows it where it compares one and the same function of both sides, or
# several of them in turn: lhs_0 < rhs_0, or they are equal and lhs_1 > rhs_1, ...


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


# -- sorting by keys: tensors that TopK orders, and the permutation it gives ------------------
#
# TopK is stable: among equals the lower index comes first. It has neither the total order nor a
# rule for NaN.


T = oir.DataType

_I63 = range_of_type(T.INT64)


@dataclass(frozen=True)
class Key:
    """A tensor to sort by; `descending` says that the greater element comes first."""

    tensor: oir.Value
    descending: bool


def keys_of(em: Emitter, x: oir.Value, order: Order, descending: bool) -> list[Key]:
    """Keys that TopK can sort by so that the elements of x come in this order."""
    return [Key(tensor, descending) for tensor in _comparable(em, x, order)]


def top_k(em: Emitter, key: Key, axis: int, k: Dim | None) -> tuple[oir.Value, oir.Value]:
    """The first k elements in the key's order (all for None) and their indices as i64."""
    tensor, dims = key.tensor, list(shape_of(key.tensor))
    extent = dims[axis] if k is None else k
    if k is not None or isinstance(extent, int):
        count, dims[axis] = em.extents.value(extent), extent
    else:
        count = em.op("Shape", tensor, start=axis, end=axis + 1, types=[(T.INT64, (1,))])
    shape = tuple(dims)
    values, indices = em.outputs(
        "TopK",
        tensor,
        count,
        axis=axis,
        largest=int(key.descending),
        sorted=1,
        n_outputs=2,
        types=[(dtype_of(tensor), shape), (T.INT64, shape)],
    )
    return values, indices


def permutation(em: Emitter, keys: Sequence[Key], axis: int, k: Dim | None) -> oir.Value:
    """Indices (i64) of the first k elements, sorted stably by the keys, the most significant first.

    One stable sort per key, from the last to the first.
    """
    indices: oir.Value | None = None
    for key in reversed(keys):
        count = k if key is keys[0] else None
        if indices is None:
            _, indices = top_k(em, key, axis, count)
            continue
        moved = Key(em.GatherElements(key.tensor, indices, axis=axis), key.descending)
        _, picked = top_k(em, moved, axis, count)
        indices = em.GatherElements(indices, picked, axis=axis)
    assert indices is not None
    return indices


# -- tensors that TopK orders as StableHLO does -------------------------------------------------


def _comparable(em: Emitter, x: oir.Value, order: Order) -> list[oir.Value]:
    """Tensors, the most significant first, with the order of the elements of x."""
    dtype = dtype_of(x)
    if dtype == T.BOOL:
        return [em.cast(x, T.UINT8)]
    if dtype == T.UINT64:
        return [_biased(em, x)]
    if dtype not in FLOATS:
        return [em.cast(x, T.INT8) if dtype.bitwidth < 8 else x]
    nan_free = em.facts.nan_free(x) or not em.guards_nan
    if order == Order.NUMBERS:
        return _numbers(em, x, nan_free)
    return _in_total_order(em, x, nan_free)


def _biased(em: Emitter, x: oir.Value) -> oir.Value:
    """u64 as i64 of the same order: the highest bit inverted."""
    known = em.facts.int_range(x)
    signed = em.cast(x, T.INT64)
    if known is not None and known.within(*_I63):
        return signed
    return em.BitwiseXor(signed, em.scalar_like(_I63.low, signed))


def _numbers(em: Emitter, x: oir.Value, nan_free: bool) -> list[oir.Value]:
    """The order of numbers: a wider type has room for NaN above infinity. f64, which has none, and
    f32 where the target has no f64, are sorted by whether they are NaN first."""
    narrow = dtype_of(x) not in (T.FLOAT, T.DOUBLE)
    if nan_free:
        return [_in_f32(em, x) if narrow and dtype_of(x) != T.FLOAT16 else x]
    if narrow or (dtype_of(x) == T.FLOAT and em.has_f64):
        wide = _in_f32(em, x) if narrow else em.cast(x, T.DOUBLE)
        return [_nan_above_infinity(em, wide, em.facts.float_range(x).high < math.inf)]
    return _nan_first(em, x)


def _in_f32(em: Emitter, x: oir.Value) -> oir.Value:
    """A narrower float in f32: rounded, so that equal numbers stay equal."""
    return keep_rounding(em.cast(x, T.FLOAT))


def _nan_first(em: Emitter, x: oir.Value) -> list[oir.Value]:
    """Whether x is NaN, and x with infinity in place of NaN."""
    nan = em.IsNaN(x)
    return [em.cast(nan, T.UINT8), em.Where(nan, em.scalar_like(math.inf, x), x)]


def _nan_above_infinity(em: Emitter, wide: oir.Value, finite: bool) -> oir.Value:
    """x with NaN as infinity, and infinity as the largest number of a wider type, which no other
    element reaches; `finite` says that there is no infinity."""
    bounded = wide
    if not finite:
        largest = np.finfo(dtype_of(wide).numpy()).max
        bounded = em.Min(wide, em.scalar_like(largest, wide))
    return em.Where(em.IsNaN(wide), em.scalar_like(math.inf, wide), bounded)


def _in_total_order(em: Emitter, x: oir.Value, nan_free: bool) -> list[oir.Value]:
    """Keys for the total order: the bits if the sign of NaN can be read, else numbers of a wider
    type, or the numbers and then the signs of zeros."""
    dtype = dtype_of(x)
    if dtype == T.DOUBLE or (not nan_free and dtype.bitwidth > 8 and em.has_bitcast):
        return [total_order_key(em, x)]
    if not nan_free:
        em.report.note("sorts treat every NaN as positive: reading its sign needs BitCast")
    if not em.has_f64:
        single = _in_f32(em, x)
        keys = [single] if nan_free else _nan_first(em, single)
        return [*keys, _is_positive_zero(em, single)]
    apart = _zeros_apart(em, x)
    if nan_free:
        return [apart]
    return [_nan_above_infinity(em, apart, em.facts.float_range(x).high < math.inf)]


def _is_positive_zero(em: Emitter, x: oir.Value) -> oir.Value:
    """1 for +0, and for numbers so small that their reciprocals are infinite; 0 for -0."""
    reciprocal = em.Div(em.scalar_like(1.0, x), x)
    return em.cast(em.Equal(reciprocal, em.scalar_like(math.inf, x)), T.UINT8)


def _zeros_apart(em: Emitter, x: oir.Value) -> oir.Value:
    """Floats without NaN, of f32 or less, as f64 with -0 < +0. The addend that separates the zeros
    (by 1 / -0 = -inf) is too small to move a number past its neighbour."""
    wide = em.cast(x, T.DOUBLE)
    reciprocal = em.Div(em.scalar_like(1.0, wide), wide)
    sign = em.Clip(reciprocal, em.scalar_like(-1e-50, wide), em.scalar_like(1e-50, wide))
    return em.Add(wide, sign)
