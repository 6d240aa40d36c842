"""Reshapes, selections and constants of tensors of static and of free extents, as StableHLO."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, chain, count

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo2onnx.frontend.mlir.types import element_type, numpy_type, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, dense, made

Extent = int | MlirValue
"""An extent of a tensor; a free one is a vector of one i32."""

# -- shapes ---------------------------------------------------------------------------------------


def extents(x: MlirValue) -> list[Extent]:
    """The extents of a tensor."""
    return [extent(x, axis) for axis in range(len(shape_of(x.type)))]


def extent(x: MlirValue, axis: int) -> Extent:
    """The extent of a tensor along an axis."""
    size = shape_of(x.type)[axis]
    if size is not None:
        return size
    i32 = ir.IntegerType.get_signless(32)
    scalar, one = (ir.RankedTensorType.get(shape, i32) for shape in ([], [1]))
    return made("reshape", one, made("get_dimension_size", scalar, x, dimension=i64(axis)))


def pieces_of(x: MlirValue) -> list[list[Extent]]:
    """The axes of a tensor for `rearranged`: each is one piece."""
    return [[size] for size in extents(x)]


def split(size: Extent, count: int) -> list[Extent]:
    """The extents of an axis that is cut into equal parts: their count, and that of each."""
    if isinstance(size, int):
        return [count, size // count]
    return [count, size if count == 1 else made("divide", size.type, size, integers([count]))]


def rearranged(
    x: MlirValue, pieces: Sequence[Sequence[Extent]], order: Sequence[Sequence[int]]
) -> MlirValue:
    """A reshape, a transpose and a reshape.

    Args:
        pieces: What each axis is split into: the major piece first.
        order: The pieces that make each axis of the result, by their numbers over all axes.
    """
    sizes, moves = list(chain(*pieces)), list(chain(*order))
    if any(len(axis) != 1 for axis in pieces):
        x = _reshaped(x, sizes)
    if moves != sorted(moves):
        shape = [shape_of(x.type)[axis] for axis in moves]
        x = made("transpose", tensor(shape, x.type), x, permutation=i64s(moves))
    if all(len(axis) == 1 for axis in order):
        return x
    return _reshaped(x, [_product([sizes[piece] for piece in axis]) for axis in order])


def in_place(pieces: Sequence[Sequence[Extent]]) -> list[list[int]]:
    """The order of `rearranged` that joins the pieces again."""
    numbers = count()
    return [[next(numbers) for _ in axis] for axis in pieces]


def with_axis(x: MlirValue) -> MlirValue:
    """A tensor with a leading axis of one."""
    pieces = pieces_of(x)
    return rearranged(x, pieces, [[], *in_place(pieces)])


def _product(sizes: Sequence[Extent]) -> Extent:
    known = math.prod(size for size in sizes if isinstance(size, int))
    free = [size for size in sizes if not isinstance(size, int)]
    if not free:
        return known
    factors = free if known == 1 else [*free, integers([known])]
    return list(accumulate(factors, lambda x, y: made("multiply", x.type, x, y)))[-1]


def _reshaped(x: MlirValue, sizes: Sequence[Extent]) -> MlirValue:
    kind = _tensor(sizes, x.type)
    if all(isinstance(size, int) for size in sizes):
        return made("reshape", kind, x)
    return made("dynamic_reshape", kind, x, vector(sizes))


def broadcast(x: MlirValue, sizes: Sequence[Extent], axes: Sequence[int]) -> MlirValue:
    """A tensor along further axes.

    Args:
        sizes: The extents of the result.
        axes: The axes of the result that those of the tensor become.
    """
    kind, where = _tensor(sizes, x.type), i64s(axes)
    if all(isinstance(size, int) for size in sizes):
        return made("broadcast_in_dim", kind, x, broadcast_dimensions=where)
    name, shape = "dynamic_broadcast_in_dim", vector(sizes)
    return made(name, kind, x, shape, broadcast_dimensions=where)


def joined(xs: Sequence[MlirValue], axis: int) -> MlirValue:
    """The concatenation along an axis."""
    if len(xs) == 1:
        return xs[0]
    shape = list(shape_of(xs[0].type))
    along = [shape_of(x.type)[axis] for x in xs]
    known = [size for size in along if size is not None]
    shape[axis] = sum(known) if len(known) == len(along) else None
    return made("concatenate", tensor(shape, xs[0].type), *xs, dimension=i64(axis))


# -- rows: the parts of a tensor along its first axis ---------------------------------------------


def picked(x: MlirValue, rows: Sequence[int]) -> MlirValue:
    """Some rows of a tensor, in this order."""
    size, *rest = shape_of(x.type)
    if list(rows) == list(range(size or 0)):
        return x
    places = integers(rows)
    kind = tensor([len(rows), *rest], x.type)
    numbers = stablehlo.GatherDimensionNumbers.get(
        list(range(1, len(rest) + 1)), [0], [], [], [0], 1
    )
    if None not in rest:
        sizes = i64s([1, *(size or 0 for size in rest)])
        return made("gather", kind, x, places, dimension_numbers=numbers, slice_sizes=sizes)
    name, shape = "dynamic_gather", vector([1, *extents(x)[1:]])
    return made(name, kind, x, places, shape, dimension_numbers=numbers)


def with_zeros(x: MlirValue) -> MlirValue:
    """A tensor with a further row of zeros."""
    return joined([x, broadcast(scalar(0, x.type), [1, *extents(x)[1:]], [])], 0)


# -- types and constants --------------------------------------------------------------------------


def tensor(shape: Sequence[int | None], like: ir.Type) -> ir.Type:
    """The type of tensors of a shape, None for free extents, with the elements of another type."""
    free = ir.ShapedType.get_dynamic_size()
    sizes = [free if size is None else size for size in shape]
    return ir.RankedTensorType.get(sizes, ir.RankedTensorType(like).element_type)


def _tensor(sizes: Sequence[Extent], like: ir.Type) -> ir.Type:
    return tensor([size if isinstance(size, int) else None for size in sizes], like)


def vector(sizes: Sequence[Extent]) -> MlirValue:
    """Extents as a vector of i32."""
    return joined([integers([size]) if isinstance(size, int) else size for size in sizes], 0)


def integers(values: Sequence[int]) -> MlirValue:
    """A constant vector of i32."""
    i32 = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    return constant(np.array(values, np.int32), i32)


def constant(array: np.ndarray, like: ir.Type) -> MlirValue:
    """A constant with the elements of another type."""
    kind = tensor(array.shape, like)
    return made("constant", kind, value=dense(array.astype(numpy_type(element_type(like))), kind))


def scalar(value: float, like: ir.Type) -> MlirValue:
    """A constant scalar with the elements of another type."""
    return constant(np.array(value), like)


def extremes(like: ir.Type) -> tuple[float, float]:
    """The least and the largest number of a type of real numbers."""
    kind = numpy_type(element_type(like))
    if kind.kind == "b":
        return 0, 1
    if kind.kind in "iu":
        return int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    return -math.inf, math.inf


def i64(value: int) -> ir.Attribute:
    """An attribute of i64."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def i64s(values: Sequence[int]) -> ir.Attribute:
    """An attribute of several i64."""
    return ir.DenseI64ArrayAttr.get(list(values))
