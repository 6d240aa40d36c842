"""Sorts of one long row, for runtimes whose TopK sorts a row in one thread.

Integers in a narrow range, such as labels, bins, ages and places, are counted: two passes.

ONNX Runtime 1.32 sorts 1,000,000 integers in 120 ms. With two threads, two rows of half as many and
the merge of both take 77 ms; with one thread 150 ms.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import fixed, is_static
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import INTEGERS, const_ints, dtype_of, shape_of, size_of
from hlo2onnx.targets.builder import TargetBuilder

INT32, INT64 = oir.DataType.INT32, oir.DataType.INT64

_SORTED_ELEMENTS = 16384
"""Integers of one row from which on it is sorted by halves."""
_COUNTED_ELEMENTS = 4096
"""Integers of one row from which on they are counted instead of compared, if close together."""
_COMPARES: Final = "hlo2onnx.compares"
"""In a TopK's metadata: it is the branch for integers in a wide range."""


def sorts_one_row(node: oir.Node, least: float) -> bool:
    """Whether a TopK puts all elements of one row in order, at least so many, and nobody reads
    their places."""
    x, count = node.inputs
    places = node.outputs[1]
    assert x is not None
    dims = shape_of(x)
    if places.uses() or places.is_graph_output() or not is_static(dims):
        return False
    size = math.prod(fixed(dims))
    is_whole = size >= least and const_ints(count) == (size,) and size in dims
    return is_whole and bool(node.attributes.get_int("sorted", 1))


def merge_halves(b: TargetBuilder, node: oir.Node) -> list[oir.Value] | None:
    """TopK(x, n) of one row of n integers -> TopK of both halves, and a merge of them.

    Legal where nobody reads the places: equal integers are the same. None for few elements.
    """
    x, places = node.inputs[0], node.outputs[1]
    assert x is not None
    if dtype_of(x) != INT32 or not sorts_one_row(node, _SORTED_ELEMENTS):
        return None
    dims = shape_of(x)
    size = math.prod(fixed(dims))
    if not all(b.supports(name, INT32) for name in ("BitwiseXor", "Min", "Max")):
        return None
    descends = bool(node.attributes.get_int("largest", 1))
    merged = _merged(b, _bitonic(b, x, size, descends), descends)
    found = b.reshape(b.slice(merged, [0], [size], axes=[0]), dims)
    return [found, b.expand(b.i64(0), shape_of(places))]


def _bitonic(b: TargetBuilder, x: oir.Value, size: int, descends: bool) -> oir.Value:
    """The elements, one half ascending, the other one descending, among elements that belong behind
    all others: together a power of two."""
    bounds = range_of_type(INT32)
    last = b.scalar(bounds.low if descends else bounds.high, INT32)
    rows = b.concat([b.reshape(x, (size,)), *[b.reshape(last, (1,))] * (size % 2)], axis=0)
    half = (size + 1) // 2
    # The complement of the descending half ascends.
    complement = b.const(np.array([[0], [-1]], np.int32))
    rows = b.BitwiseXor(b.reshape(rows, (2, half)), complement)
    ascending, _ = b.outputs("TopK", rows, b.i64([half]), axis=1, largest=0, n_outputs=2)
    halves = b.BitwiseXor(ascending, complement)
    missing = (1 << (size - 1).bit_length()) - 2 * half
    if not missing:
        return b.reshape(halves, (2 * half,))
    filling = b.expand(last, (missing,))
    if descends:
        return b.concat([b.reshape(halves, (2 * half,)), filling], axis=0)
    ends = [b.reshape(b.slice(halves, [k], [k + 1], axes=[0]), (half,)) for k in (0, 1)]
    return b.concat([ends[0], filling, ends[1]], axis=0)


def _merged(b: TargetBuilder, x: oir.Value, descends: bool) -> oir.Value:
    """The elements of a bitonic sequence in order (Batcher).

    The last steps compare neighbours. They take place on the transposed sequence, where rows that
    are compared are long.
    """
    (size,) = fixed(shape_of(x))
    inner = 1 << (size.bit_length() - 1) // 2
    x = _steps(b, b.reshape(x, (size // inner, inner)), descends)
    x = b.transpose(b.reshape(x, (size // inner, inner)), (1, 0))
    x = b.transpose(_steps(b, x, descends), (1, 0))
    return b.reshape(x, (size,))


def _steps(b: TargetBuilder, x: oir.Value, descends: bool) -> oir.Value:
    """Compares rows, a power of two, at half their number of rows apart, then at a quarter, up to
    neighbours."""
    count, length = fixed(shape_of(x))
    apart = count // 2
    while apart:
        pairs = b.reshape(x, (count // (2 * apart), 2, apart * length))
        first, second = (b.slice(pairs, [k], [k + 1], axes=[1]) for k in (0, 1))
        ordered = [b.Min(first, second), b.Max(first, second)]
        x = b.concat(ordered[::-1] if descends else ordered, axis=1)
        apart //= 2
    return b.reshape(x, (count, length))


# -- by counting ----------------------------------------------------------------------------------


def count_integers(b: TargetBuilder, node: oir.Node) -> list[oir.Value] | None:
    """TopK(x, n) of one row of n integers
    -> If(max(x) - min(x) < n, the numbers by how often each one occurs, TopK(x, n))

    Legal where nobody reads the places: equal integers are the same. It needs no If if the type
    has at most n numbers. None for few elements, and for types wider than i32.
    """
    x, places = node.inputs[0], node.outputs[1]
    assert x is not None
    dtype = dtype_of(x)
    if node.meta.get(_COMPARES) or not sorts_one_row(node, _COUNTED_ELEMENTS):
        return None
    if dtype not in INTEGERS or not range_of_type(dtype).within(*range_of_type(INT32)):
        return None
    if not all(b.supports(name, INT32) for name in ("CumSum", "ReduceMin", "ScatterElements[add]")):
        return None
    if not b.supports("TopK", dtype):  # it becomes one of another type
        return None
    flags = b.target.flags
    if flags.no_if or flags.no_outer_values_in_branches or flags.narrows_i64:
        return None
    size = math.prod(fixed(shape_of(x)))
    row = b.cast(b.reshape(x, (size,)), INT32)
    ends = b.ReduceMin(row, keepdims=0), b.ReduceMax(row, keepdims=0)
    if dtype.bitwidth < 32 and size >= 1 << dtype.bitwidth:
        values = _counted(b, node, row, *ends)
    else:
        values = _if_narrow(b, node, row, *ends)
    return [values, b.expand(b.i64(0), shape_of(places))]


def _if_narrow(
    b: TargetBuilder, node: oir.Node, row: oir.Value, lowest: oir.Value, highest: oir.Value
) -> oir.Value:
    """The integers in order, by counting or by comparing."""
    # The difference of two i32 may have 33 bits.
    span = b.Sub(b.cast(highest, INT64), b.cast(lowest, INT64))
    is_narrow = b.Less(span, b.scalar(size_of(row), INT64))
    with b.subgraph([], f"{b.scope}/counted") as counted:
        counted.outputs.append(_counted(b, node, row, lowest, highest))
    with b.subgraph([], f"{b.scope}/compared") as compared:
        found, _ = b.copy_of(node)
        maker = found.producer()
        assert maker is not None
        maker.meta[_COMPARES] = True
        compared.outputs.append(found)
    branches = {"then_branch": counted, "else_branch": compared}
    x = node.outputs[0]
    (values,) = b.node("If", [is_narrow], branches, [(dtype_of(x), shape_of(x))])
    return values


def _counted(
    b: TargetBuilder, node: oir.Node, row: oir.Value, lowest: oir.Value, highest: oir.Value
) -> oir.Value:
    """The integers in order, if they are less far apart than there are integers, or if their type
    is so narrow.

    The k-th of the sorted differences from the first integer is the count of the differences d with
    at most k elements up to d. The differences that no element reaches count for the place behind
    the last element, which is dropped.
    """
    (size,) = fixed(shape_of(row))
    descends = bool(node.attributes.get_int("largest", 1))
    from_first = b.Sub(highest, row) if descends else b.Sub(row, lowest)
    ones = b.expand(b.scalar(1, INT32), (size,))
    each = _added(b, size, from_first, ones)
    up_to = b.CumSum(each, b.i64(0))
    passed = _added(b, size + 1, up_to, ones)
    order = b.CumSum(b.slice(passed, [0], [size], axes=[0]), b.i64(0))
    values = b.Sub(highest, order) if descends else b.Add(order, lowest)
    found = node.outputs[0]
    return b.reshape(b.cast(values, dtype_of(found)), shape_of(found))


def _added(b: TargetBuilder, size: int, indices: oir.Value, ones: oir.Value) -> oir.Value:
    """How often each index occurs."""
    zeros = b.expand(b.scalar(0, INT32), (size,))
    return b.ScatterElements(zeros, indices, ones, axis=0, reduction="add")
