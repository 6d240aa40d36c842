"""Operators for which a runtime has no fast kernel: sorts of one long row, Transposes, Where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import (
    INTEGERS,
    attributes_of,
    const_ints,
    const_of,
    dtype_of,
    present,
    rank_of,
    shape_of,
    size_of,
    static_shape,
)
from hlo2onnx.targets.builder import TargetBuilder

T = oir.DataType

# -- sorts -----------------------------------------------------------------------------------------

# Sorts of one long row, for runtimes whose TopK sorts a row in one thread.
#
# ONNX Runtime 1.32 sorts 1,000,000 integers in 120 ms. Integers in a narrow range, such as labels,
# bins, ages and places, are counted instead: two passes.


_COUNTED_ELEMENTS = 4096
"""Integers of one row from which on they are counted instead of compared, if close together."""
_COMPARES: Final = "hlo2onnx.compares"
"""In a TopK's metadata: it is the branch for integers in a wide range."""


def count_integers(b: TargetBuilder, node: oir.Node) -> list[oir.Value] | None:
    """TopK(x, n) of one row of n integers
    -> If(max(x) - min(x) < n, the numbers by how often each one occurs, TopK(x, n))

    Legal where nobody reads the places: equal integers are the same. It needs no If if the type
    has at most n numbers. None for few elements, and for types wider than i32.
    """
    (x, count), places = present(node.inputs), node.outputs[1]
    dtype, size, flags = dtype_of(x), size_of(x), b.target.flags
    if node.meta.get(_COMPARES) or places.uses() or places.is_graph_output():
        return None
    if size is None or size < _COUNTED_ELEMENTS or size not in shape_of(x):
        return None
    if const_ints(count) != (size,) or not node.attributes.get_int("sorted", 1):
        return None
    if dtype not in INTEGERS or not range_of_type(dtype).within(*range_of_type(T.INT32)):
        return None
    if not all(
        b.supports(name, T.INT32) for name in ("CumSum", "ReduceMin", "ScatterElements[add]")
    ):
        return None
    if not b.supports("TopK", dtype):  # it becomes one of another type
        return None
    if flags.no_if or flags.narrows_i64:
        return None
    row = b.cast(b.reshape(x, (size,)), T.INT32)
    ends = b.ReduceMin(row, keepdims=0), b.ReduceMax(row, keepdims=0)
    is_small_type = dtype.bitwidth < 32 and size >= 1 << dtype.bitwidth
    values = (_counted if is_small_type else _if_narrow)(b, node, row, *ends)
    return [values, b.expand(b.i64(0), shape_of(places))]


def _if_narrow(
    b: TargetBuilder, node: oir.Node, row: oir.Value, lowest: oir.Value, highest: oir.Value
) -> oir.Value:
    """The integers in order, by counting or by comparing."""
    # The difference of two i32 may have 33 bits.
    span = b.Sub(b.cast(highest, T.INT64), b.cast(lowest, T.INT64))
    is_narrow = b.Less(span, b.scalar(size_of(row), T.INT64))
    with b.subgraph([], f"{b.scope}/counted") as counted:
        counted.outputs.append(_counted(b, node, row, lowest, highest))
    with b.subgraph([], f"{b.scope}/compared") as compared:
        compared.outputs.append(b.copy_of(node)[0])
        b.made[-1].meta[_COMPARES] = True
    branches = {"then_branch": counted, "else_branch": compared}
    x = node.outputs[0]
    (values,) = b.node("If", [is_narrow], branches, [(dtype_of(x), shape_of(x))])
    return values


def _counted(
    b: TargetBuilder, node: oir.Node, row: oir.Value, lowest: oir.Value, highest: oir.Value
) -> oir.Value:
    """The integers in order, if their range, or that of their type, is smaller than their count.

    The k-th of the sorted differences from the first integer is the count of the differences d with
    at most k elements up to d. The differences that no element reaches count for the place behind
    the last element, which is dropped.
    """
    (size,) = fixed(shape_of(row))
    descends = bool(node.attributes.get_int("largest", 1))
    from_first = b.Sub(highest, row) if descends else b.Sub(row, lowest)
    ones = b.expand(b.scalar(1, T.INT32), (size,))
    each = _added(b, size, from_first, ones)
    up_to = b.CumSum(each, b.i64(0))
    passed = _added(b, size + 1, up_to, ones)
    order = b.CumSum(b.slice(passed, [0], [size], axes=[0]), b.i64(0))
    values = b.Sub(highest, order) if descends else b.Add(order, lowest)
    found = node.outputs[0]
    return b.reshape(b.cast(values, dtype_of(found)), shape_of(found))


def _added(b: TargetBuilder, size: int, indices: oir.Value, ones: oir.Value) -> oir.Value:
    """How often each index occurs."""
    zeros = b.expand(b.scalar(0, T.INT32), (size,))
    return b.ScatterElements(zeros, indices, ones, axis=0, reduction="add")


# -- transposes ------------------------------------------------------------------------------------

# Transposes for which a runtime has no fast kernel.
#
# ONNX Runtime 1.32 takes 0.2 to 0.4 µs for each matrix of a batch: 390 µs for 1,000 of 6 x 6. With
# the batch last, a row of the batch is copied at once: 27 µs.
#
# It has a fast kernel for one axis that moves, of up to 32 bits an element: 2048 x 1024 numbers
# take 0.6 ms. Of two axes that move it copies element by element, and counts axes of extent 1: the
# same numbers as 1 x 1 x 2048 x 1024 take 34 ms.


_FEWEST_MATRICES, _MOVED_MATRIX = 32, 144
"""Fewest matrices that are transposed with the batch last, and elements of the largest one."""
_MOVED_ELEMENTS = 4096
"""Fewest elements that move one axis at a time."""


def transpose_with_batch_last(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """Transpose(x), leading axes staying -> the rows of x with these axes last, in another order.

    Legal for every type: numbers are only moved. None if no axis stays, if the parts that move are
    large or few, or where a MatMul takes the Transpose over.
    """
    (x,), perm = present(node.inputs), _perm(node)
    dims = static_shape(x)
    kept = next((k for k, axis in enumerate(perm) if k != axis), len(perm))
    if dims is None or not kept or _is_multiplied(node):
        return None
    batch, core = dims[:kept], dims[kept:]
    count, size = math.prod(batch), math.prod(core)
    if not 1 < size <= _MOVED_MATRIX or count < _FEWEST_MATRICES:
        return None
    places = np.arange(size).reshape(core).transpose([axis - kept for axis in perm[kept:]])
    rows = b.transpose(b.reshape(x, (count, size)), (1, 0))
    moved = b.Gather(rows, b.i64(places.reshape(-1).tolist()), axis=0)
    return b.reshape(b.transpose(moved, (1, 0)), (*batch, *places.shape))


MOVED_BITS = 32
"""Bits of the largest elements for which there is a fast kernel."""


def move_one_axis(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """Transpose(x), several axes moving -> Transpose of fewer axes, one of which moves

    Axes that stay next to each other count as one, and axes of extent 1 as none. Legal for every
    type: numbers are only moved. None for few elements, other orders, and where a MatMul takes the
    Transpose over.
    """
    (x,), perm = present(node.inputs), _perm(node)
    dims = static_shape(x)
    if dims is None or dtype_of(x).bitwidth > MOVED_BITS or _moves_one(perm):
        return None
    if math.prod(dims) < _MOVED_ELEMENTS or _is_multiplied(node):
        return None
    parts, order = _parts(dims, perm)
    if not _moves_one(order):
        return None
    return b.reshape(b.transpose(b.reshape(x, parts), order), [dims[axis] for axis in perm])


def _perm(node: oir.Node) -> list[int]:
    reverse = range(rank_of(node.outputs[0]))[::-1]
    return [int(axis) for axis in attributes_of(node).get("perm", reverse)]


def _is_multiplied(node: oir.Node) -> bool:
    """Whether a MatMul takes a Transpose over."""
    return any(user.op_type == "MatMul" for user in node.outputs[0].consumers())


def _moves_one(perm: Sequence[int]) -> bool:
    """Whether all axes but one stay in order."""
    rest = ([*perm[:place], *perm[place + 1 :]] for place in range(len(perm)))
    return not perm or any(axes == sorted(axes) for axes in rest)


def _parts(dims: Sequence[int], perm: Sequence[int]) -> tuple[list[int], list[int]]:
    """The extents of the parts of a tensor that a Transpose moves as wholes, and their order."""
    real = [axis for axis, dim in enumerate(dims) if dim != 1]
    groups: list[list[int]] = []
    for place in (real.index(axis) for axis in perm if axis in real):
        if groups and groups[-1][-1] + 1 == place:
            groups[-1].append(place)
        else:
            groups.append([place])
    extents = [math.prod(dims[real[place]] for place in group) for group in sorted(groups)]
    return extents, [sorted(groups).index(group) for group in groups]


# -- where -----------------------------------------------------------------------------------------

# Where of many elements, for runtimes that take a branch for each.
#
# ONNX Runtime 1.32 takes 0.9 ns for an element if the conditions are easy to predict, and 7 ns if
# they are random; arithmetic takes 0.5 ns. In 1.31 Where takes 0.4 ns, and arithmetic 0.6 ns.
# Models for "ort-cpu" run in both, so they have the form that is never slow.


_BITS = {T.FLOAT: T.INT32, T.DOUBLE: T.INT64}
_INTEGERS = frozenset({T.INT32, T.INT64, T.UINT32, T.UINT64, T.UINT8})

_FEWEST_ELEMENTS = 16384
"""Elements from which on arithmetic is faster."""


def select_by_arithmetic(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """Where(c, x, y) -> y + c * (x - y) for integers, which wrap around, and for the bits of floats
    in opsets that have BitCast; None for others, and where conditions repeat."""
    c, x, y = present(node.inputs)
    dtype, dims, maker = dtype_of(x), static_shape(node.outputs[0]), c.producer()
    if maker is not None and maker.op_type == "IsNaN":
        return None  # easy to predict
    if dims is None or math.prod(dims) < _FEWEST_ELEMENTS or shape_of(c) != dims:
        return None
    bits = _BITS.get(dtype, dtype)
    pairs = [] if bits == dtype else [(dtype, bits), (bits, dtype)]
    is_possible = (
        bits in _INTEGERS
        and all(b.target.supports_pair("BitCast", *pair, b.opset) for pair in pairs)
        and all(b.supports(name, bits) for name in ("Add", "Mul", "Sub"))
        and b.target.supports_cast(T.BOOL, bits, b.opset)
    )
    if not is_possible:
        return None
    if not pairs:
        return _chosen(b, c, x, y)
    return b.BitCast(_chosen(b, c, _bits(b, x, bits), _bits(b, y, bits)), to=dtype)


def _bits(b: TargetBuilder, x: oir.Value, bits: oir.DataType) -> oir.Value:
    known = const_of(x)
    if known is not None and known.size == 1:
        return b.const(known.view(bits.numpy()))
    return b.BitCast(x, to=bits)


def _chosen(b: TargetBuilder, c: oir.Value, x: oir.Value, y: oir.Value) -> oir.Value:
    """y + c * (x - y) in as few nodes as zeros allow."""
    dtype, first, second = dtype_of(x), const_of(x), const_of(y)
    if first is not None and not first.any():
        return b.Mul(b.cast(b.Not(c), dtype), y)
    weight = b.cast(c, dtype)
    if second is not None and not second.any():
        return weight if first is not None and (first == 1).all() else b.Mul(weight, x)
    return b.Add(b.Mul(weight, _difference(b, x, y)), y)


def _difference(b: TargetBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    """x - y; of x = y + z it is z, as for negative indices."""
    first, second, node = const_of(x), const_of(y), x.producer()
    if first is not None and second is not None:
        with np.errstate(over="ignore"):
            return b.const(first - second)
    if node is not None and node.op_type == "Add" and not node.domain and y in node.inputs:
        one, other = present(node.inputs)
        return other if one is y else one
    return b.Sub(x, y)
