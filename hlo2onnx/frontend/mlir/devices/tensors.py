"""Parts, joins and zeros of tensors, of static and of free extents, as ops of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.types import shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, dense, made


def part(x: MlirValue, index: Sequence[int], counts: Sequence[int]) -> MlirValue:
    """One of the equal parts of a tensor.

    Args:
        index: Which one, along each axis.
        counts: How many there are along each axis.
    """
    if all(count == 1 for count in counts):
        return x
    sizes = [size for size in shape_of(x.type) if size is not None]
    if len(sizes) < len(counts):
        return _free_part(x, index, counts)
    steps = [size // count for size, count in zip(sizes, counts, strict=True)]
    starts = [i * step for i, step in zip(index, steps, strict=True)]
    limits = [start + step for start, step in zip(starts, steps, strict=True)]
    result = tensor(steps, x.type)
    ones = [1] * len(steps)
    names = ("start_indices", "limit_indices", "strides")
    lists = map(ir.DenseI64ArrayAttr.get, (starts, limits, ones))
    return made("slice", result, x, **dict(zip(names, lists, strict=True)))


def _free_part(x: MlirValue, index: Sequence[int], counts: Sequence[int]) -> MlirValue:
    sizes = zip(shape_of(x.type), counts, strict=True)
    result = tensor([None if size is None else size // n for size, n in sizes], x.type)
    starts, limits = [], []
    for axis, (i, count) in enumerate(zip(index, counts, strict=True)):
        size = extent(x, axis)
        step = made("divide", size.type, size, integers([count]))
        starts.append(made("multiply", size.type, step, integers([i])))
        limits.append(made("multiply", size.type, step, integers([i + 1])))
    ones = integers([1] * len(counts))
    return made("real_dynamic_slice", result, x, joined(starts, 0), joined(limits, 0), ones)


def joined(xs: Sequence[MlirValue], axis: int) -> MlirValue:
    """The concatenation along an axis."""
    if len(xs) == 1:
        return xs[0]
    shape = list(shape_of(xs[0].type))
    along = [shape_of(x.type)[axis] for x in xs]
    known = [size for size in along if size is not None]
    shape[axis] = sum(known) if len(known) == len(along) else None
    return made("concatenate", tensor(shape, xs[0].type), *xs, dimension=i64(axis))


def zeros_like(x: MlirValue) -> MlirValue:
    """Zeros of the shape and type of a tensor."""
    number = scalar_like(0, ir.RankedTensorType.get([], ir.IntegerType.get_signless(32)))
    zero = made("convert", tensor([], x.type), number)
    none = ir.DenseI64ArrayAttr.get([])
    if None not in shape_of(x.type):
        return made("broadcast_in_dim", x.type, zero, broadcast_dimensions=none)
    sizes = joined([extent(x, axis) for axis in range(len(shape_of(x.type)))], 0)
    return made("dynamic_broadcast_in_dim", x.type, zero, sizes, broadcast_dimensions=none)


def tensor(shape: Sequence[int | None], like: ir.Type) -> ir.Type:
    """The type of tensors of a shape, None for free extents, with the elements of another type."""
    free = ir.ShapedType.get_dynamic_size()
    sizes = [free if size is None else size for size in shape]
    return ir.RankedTensorType.get(sizes, ir.RankedTensorType(like).element_type)


def extent(x: MlirValue, axis: int) -> MlirValue:
    """The extent of a tensor along an axis, as a vector of one i32."""
    size = shape_of(x.type)[axis]
    if size is not None:
        return integers([size])
    i32 = ir.IntegerType.get_signless(32)
    scalar, one = (ir.RankedTensorType.get(shape, i32) for shape in ([], [1]))
    return made("reshape", one, made("get_dimension_size", scalar, x, dimension=i64(axis)))


def integers(values: Sequence[int]) -> MlirValue:
    """A constant vector of i32."""
    array = np.array(values, np.int32)
    vector = ir.RankedTensorType.get([len(array)], ir.IntegerType.get_signless(32))
    return made("constant", vector, value=dense(array, vector))


def scalar_like(value: int, like: ir.Type) -> MlirValue:
    """A constant integer of the type of a scalar."""
    number = ir.IntegerAttr.get(ir.RankedTensorType(like).element_type, value)
    return made("constant", like, value=ir.DenseElementsAttr.get_splat(like, number))


def i64(value: int) -> ir.Attribute:
    """An attribute of i64."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
