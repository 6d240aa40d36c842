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
    shape = shape_of(x.type)
    steps = [None if n is None else n // count for n, count in zip(shape, counts, strict=True)]
    result = tensor(steps, x.type)
    if None in steps:
        return _free_part(x, index, counts, result)
    starts = [i * step for i, step in zip(index, steps, strict=True) if step is not None]
    limits = [start + step for start, step in zip(starts, steps, strict=True) if step is not None]
    ones = [1] * len(shape)
    names = ("start_indices", "limit_indices", "strides")
    lists = map(ir.DenseI64ArrayAttr.get, (starts, limits, ones))
    return made("slice", result, x, **dict(zip(names, lists, strict=True)))


def _free_part(
    x: MlirValue, index: Sequence[int], counts: Sequence[int], result: ir.Type
) -> MlirValue:
    sizes = extents(x)
    steps = made("divide", sizes.type, sizes, integers(counts))
    starts = made("multiply", sizes.type, steps, integers(index))
    limits = made("add", sizes.type, starts, steps)
    return made("real_dynamic_slice", result, x, starts, limits, integers([1] * len(counts)))


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
    zero = _zero(ir.RankedTensorType(x.type).element_type)
    none = ir.DenseI64ArrayAttr.get([])
    if None not in shape_of(x.type):
        return made("broadcast_in_dim", x.type, zero, broadcast_dimensions=none)
    sizes = extents(x)
    return made("dynamic_broadcast_in_dim", x.type, zero, sizes, broadcast_dimensions=none)


def _zero(element: ir.Type) -> MlirValue:
    scalar = ir.RankedTensorType.get([], element)
    if isinstance(element, ir.ComplexType):  # the bindings have no constants of them
        zero = _zero(element.element_type)
        return made("complex", scalar, zero, zero)
    body = "0.0"
    if isinstance(element, ir.IntegerType):
        body = "false" if element.width == 1 else "0"
    return made("constant", scalar, value=ir.Attribute.parse(f"dense<{body}> : {scalar}"))


def tensor(shape: Sequence[int | None], like: ir.Type) -> ir.Type:
    """The type of tensors of a shape, None for free extents, with the elements of another type."""
    free = ir.ShapedType.get_dynamic_size()
    sizes = [free if size is None else size for size in shape]
    return ir.RankedTensorType.get(sizes, ir.RankedTensorType(like).element_type)


def extents(x: MlirValue) -> MlirValue:
    """The extents of a tensor as a vector of i32."""
    one = ir.RankedTensorType.get([1], ir.IntegerType.get_signless(32))
    sizes = []
    for axis, size in enumerate(shape_of(x.type)):
        if size is not None:
            sizes.append(integers([size]))
            continue
        scalar = ir.RankedTensorType.get([], one.element_type)
        found = made("get_dimension_size", scalar, x, dimension=i64(axis))
        sizes.append(made("reshape", one, found))
    return joined(sizes, 0)


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
