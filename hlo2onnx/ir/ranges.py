"""Integer interval arithmetic over ONNX nodes, and integers without two equal elements or rows."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import known_elements
from hlo2onnx.ir.values import (
    INTEGERS,
    complete,
    dtype_of,
    present,
    rank_of,
    shape_of,
    size_of,
    static_shape,
)

_Bound = TypeVar("_Bound", int, float)


class Range(NamedTuple):
    """Inclusive bounds."""

    low: int
    high: int

    def within(self, low: int, high: int) -> bool:
        """Whether every value lies in [low, high]."""
        return low <= self.low and self.high <= high


class Bounds(Protocol):
    """Inclusive bounds of integers or floats."""

    @property
    def low(self) -> float:
        """The lower one."""

    @property
    def high(self) -> float:
        """The upper one."""


RANGE = "hlo2onnx.range"
"""Key of `onnx_ir.Value.meta`: the `Range` of a value, noted by the code that made it."""

EXTENTS = Range(0, (1 << 31) - 1)
"""The range of extents: programs hold them in i32."""

RangeOf = Callable[[oir.Value], Range | None]


@cache
def range_of_type(dtype: oir.DataType) -> Range:
    """The range of an integer type."""
    bits = dtype.bitwidth
    if dtype.name.startswith("U"):
        return Range(0, (1 << bits) - 1)
    return Range(-(1 << bits - 1), (1 << bits - 1) - 1)


def range_of_node(node: oir.Node, value: oir.Value, range_of: RangeOf) -> Range:
    """Bounds of an integer output of a node, or of its type where nothing better is proven."""
    everything = range_of_type(dtype_of(value))
    operands = [range_of(x) for x in present(node.inputs)]
    found: Range | None = None
    if node.op_type in ("ArgMax", "ArgMin"):
        found = _place_range(node, node.attributes.get_int("axis", 0))
    elif node.op_type == "TopK":
        is_place = value is node.outputs[1]
        found = _place_range(node, node.attributes.get_int("axis", -1)) if is_place else operands[0]
    elif node.op_type in _SUMS and operands[0]:
        found = _sum_range(node, operands)
    elif node.op_type == "Shape":
        found = EXTENTS
    elif node.op_type == "Cast":
        found = _cast_range(node, operands)
    elif node.op_type == "Where" and operands[1] and operands[2]:
        branch = decided_branch(node, range_of)
        taken = [operands[1], operands[2]] if branch is None else [range_of(branch)]
        found = Range(*union([operand for operand in taken if operand]))
    elif known := complete(operands):
        found = _arithmetic(node.op_type, known) or _digits(node, known)
    # A result outside the type would have wrapped, so nothing is known about it.
    return found if found is not None and found.within(*everything) else everything


MONOTONIC: Mapping[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Ceil": np.ceil,
    "Clip": lambda x, low, high: min(max(x, low), high),
    "Floor": np.floor,
    "Max": lambda *xs: max(xs),
    "Min": lambda *xs: min(xs),
    "Mul": operator.mul,
    "Neg": operator.neg,
    "Relu": lambda x: max(x, 0),
    "Round": np.round,
    "Sign": lambda x: int(x > 0) - int(x < 0),
    "Sub": operator.sub,
}
"""Operators that are monotonic in each operand. The corners of the operands' ranges bound their
results, for integers and floats."""

_MOST_OPERANDS = 8
"""Operators with more operands are not bounded: the number of corners doubles with each."""


def corners(op_type: str, ranges: Sequence[Sequence[Any]]) -> list[Any] | None:
    """The results of an operator of `MONOTONIC` at all corners; None for other operators."""
    function = MONOTONIC.get(op_type)
    is_partial = op_type == "Clip" and len(ranges) != 3
    if function is None or is_partial or len(ranges) > _MOST_OPERANDS:
        return None
    return [function(*corner) for corner in itertools.product(*ranges)]


def union(ranges: Sequence[tuple[_Bound, _Bound]]) -> tuple[_Bound, _Bound]:
    """The bounds of the elements of several values."""
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def magnitudes(low: Any, high: Any) -> tuple[Any, Any]:
    """The bounds of the absolute values."""
    return max(low, -high, 0), max(-low, high)


def _arithmetic(op_type: str, operands: list[Range]) -> Range | None:
    found = corners(op_type, operands)
    if found is not None:
        return Range(min(found), max(found))
    first = operands[0]
    if op_type == "Abs":
        return Range(*magnitudes(*first))
    if op_type == "Concat":
        return Range(*union(operands))
    if len(operands) == 3 and op_type == "Range":
        _, limit, step = operands
        return Range(first.low, max(limit.high - 1, first.low)) if step.low > 0 else None
    return None


def _digits(node: oir.Node, operands: list[Range]) -> Range | None:
    """Bounds of divisions by positive numbers and of bitwise operators on numbers that are not
    negative."""
    if len(operands) != 2:
        return None
    first, second = operands
    natural = [operand.high for operand in operands if operand.low >= 0]
    if node.op_type == "BitwiseAnd" and natural:
        return Range(0, min(natural))
    if node.op_type == "Mod" and second.low > 0 and not node.attributes.get_int("fmod", 0):
        # It takes the sign of the divisor.
        return Range(0, min(*natural, second.high - 1))
    if len(natural) < 2:
        return None
    if node.op_type in ("BitwiseOr", "BitwiseXor"):
        return Range(0, (1 << max(natural).bit_length()) - 1)
    if node.op_type == "BitShift" and node.attributes.get_string("direction") == "RIGHT":
        return Range(first.low >> second.high, first.high >> second.low)
    if second.low == 0:
        return None
    if node.op_type == "Div":
        return Range(first.low // second.high, first.high // second.low)
    if node.op_type == "Mod":
        return Range(0, min(first.high, second.high - 1))
    return None


def _place_range(node: oir.Node, axis: int) -> Range | None:
    """The range of indices along an axis of the first operand."""
    x = node.inputs[0]
    assert x is not None
    dim = shape_of(x)[axis] if shape_of(x) else 1
    return Range(0, max(int(dim) - 1, 0)) if isinstance(dim, int) else None


def _cast_range(node: oir.Node, operands: list[Range | None]) -> Range | None:
    source = node.inputs[0]
    assert source is not None
    if dtype_of(source) == oir.DataType.BOOL:
        return Range(0, 1)
    return operands[0] if dtype_of(source) in INTEGERS else None


# -- sums -------------------------------------------------------------------------------------

_SUMS = frozenset({"CumSum", "ReduceSum", "ScatterElements", "ScatterND"})


def _sum_range(node: oir.Node, operands: list[Range | None]) -> Range | None:
    """The range of sums of elements, partial sums included, and of a tensor with updates."""
    x, result = node.inputs[0], node.outputs[0]
    assert x is not None and operands[0] is not None
    size = size_of(x)
    if size is None:
        return None
    if node.op_type == "ReduceSum":
        made = size_of(result)
        return Range(*(bound * (size // made) for bound in operands[0])) if made else None
    if node.op_type == "CumSum":
        return _partial(operands[0], size)
    updates, count = operands[2], size_of(node.inputs[2])
    reduction = node.attributes.get_string("reduction", "none")
    if updates is None or count is None or reduction == "mul":
        return None
    if reduction == "add":
        more = _partial(updates, count)
        return Range(operands[0].low + more.low, operands[0].high + more.high)
    return Range(*union([operands[0], updates]))


def _partial(item: Range, count: int) -> Range:
    """The range of the sum of up to `count` items."""
    return Range(min(item.low * count, 0), max(item.high * count, 0))


# -- comparisons ------------------------------------------------------------------------------


def decided(compare: oir.Node, range_of: Callable[[oir.Value], Bounds | None]) -> bool | None:
    """The result of a comparison of numbers other than NaN for all elements, if their ranges decide
    it."""
    if compare.op_type not in _DECIDE:
        return None
    operands = present(compare.inputs)
    first = range_of(operands[0])
    second = None if first is None else range_of(operands[1])
    if first is None or second is None:
        return None
    always, never = _DECIDE[compare.op_type](first, second)
    return True if always else False if never else None


def decided_branch(node: oir.Node, range_of: RangeOf) -> oir.Value | None:
    """The operand that a Where always takes, if ranges decide its condition."""
    condition, first, second = node.inputs
    compare = condition.producer() if condition is not None else None
    takes_first = None if compare is None else decided(compare, range_of)
    if takes_first is None:
        return None
    return first if takes_first else second


def _equal(a: Bounds, b: Bounds) -> tuple[bool, bool]:
    return a.low == a.high == b.low == b.high, a.high < b.low or b.high < a.low


def _less(a: Bounds, b: Bounds) -> tuple[bool, bool]:
    return a.high < b.low, a.low >= b.high


def _less_or_equal(a: Bounds, b: Bounds) -> tuple[bool, bool]:
    return a.high <= b.low, a.low > b.high


_DECIDE: dict[str, Callable[[Bounds, Bounds], tuple[bool, bool]]] = {
    "Equal": _equal,
    "Greater": lambda a, b: _less(b, a),
    "GreaterOrEqual": lambda a, b: _less_or_equal(b, a),
    "Less": _less,
    "LessOrEqual": _less_or_equal,
}
"""For each comparison, whether it always holds and whether it never holds."""


_SAME_ELEMENTS = frozenset({"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def distinct_rows(value: oir.Value, range_of: RangeOf) -> bool:
    """Whether all vectors along the last axis are provably different."""
    dims = static_shape(value)
    return bool(dims) and distinct(value, range_of, rows=math.prod((dims or ())[:-1]))


_DEEPEST = 64
"""Longer chains of ops are not followed."""


def distinct(
    value: oir.Value, range_of: RangeOf, depth: int = _DEEPEST, rows: int | None = None
) -> bool:
    """Whether all elements, or this many rows of them, are provably different."""
    size = size_of(value)
    if size is None or dtype_of(value) not in INTEGERS or not depth:
        return False
    count = size if rows is None else rows
    if count <= 1:
        return True
    known = known_elements(value)
    if known is not None:
        return len(np.unique(known.reshape(count, -1), axis=0)) == count
    node = value.producer()
    x = None if node is None else node.inputs[0]
    if node is None or x is None:
        return False
    if node.op_type == "Cast":
        return _keeps_apart(node, range_of) and distinct(x, range_of, depth - 1, rows)
    if count < size:
        is_last = node.attributes.get_int("axis", 0) == rank_of(value) - 1
        # One column that tells all rows apart is enough.
        columns = present(node.inputs) if node.op_type == "Concat" and is_last else []
        return any(distinct(column, range_of, depth - 1, rows) for column in columns)
    if node.op_type == "Range":
        return True
    if node.op_type in _SAME_ELEMENTS:
        return distinct(x, range_of, depth - 1)
    if node.op_type == "TopK":
        # Places of the greatest elements of one row.
        axis = node.attributes.get_int("axis", -1)
        return value is node.outputs[1] and shape_of(value)[axis] == size
    branch = decided_branch(node, range_of) if node.op_type == "Where" else None
    return branch is not None and distinct(branch, range_of, depth - 1)


def _keeps_apart(cast: oir.Node, range_of: RangeOf) -> bool:
    """Whether a Cast between integer types does not wrap."""
    (x,) = cast.inputs
    assert x is not None
    known = range_of(x)
    return known is not None and known.within(*range_of_type(dtype_of(cast.outputs[0])))
