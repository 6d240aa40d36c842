"""reduce: sums, products, extremes, arg-extremes, and any other region."""

from __future__ import annotations

from collections.abc import Sequence

from dialect_handlers.common.reductions import (
    combine,
    first_extreme,
    halve,
    has_reducer,
    reduce_axes,
)
from dialect_handlers.common.regions import (
    ARG_EXTREMES,
    Combiner,
    is_neutral,
    recognise,
    recognise_each,
)
from dialect_handlers.common.tensors import each
from hlo2onnx.frontend.mlir.values import counts_along
from hlo2onnx.ir.dims import is_positive, product
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.reduce", form="real")
@handles("stablehlo.reduce", form="complex")
def reduce(em: Emitter, op: Op, *, dimensions: tuple[int, ...]) -> list[Parts]:
    """reduce(inputs, inits) -> body(inits, the body over `dimensions`), without neutral inits.

    Like XLA, it ignores the inits if each result has a single element: that element is the result.
    """
    count = len(op.operands) // 2
    inputs = [em.parts(value) for value in op.operands[:count]]
    inits = [em.parts(value) for value in op.operands[count:]]
    extents = [shape_of(inputs[0][0])[axis] for axis in dimensions]
    if 0 in extents:
        x = inputs[0][0]
        dims = [dim for axis, dim in enumerate(shape_of(x)) if axis not in dimensions]
        return each(lambda init: em.expand(init, dims), inits)
    if all(extent == 1 for extent in extents):
        return each(lambda x: em.squeeze(x, dimensions), inputs)
    combiner = recognise(em, op.block(0))
    if (
        combiner in ARG_EXTREMES
        and len(dimensions) == 1
        and is_positive(extents[0])
        and counts_along(op.operands[1], dimensions[0])
    ):
        reduced = _by_arg_extreme(em, combiner, inputs, dimensions[0])
        names: list[Combiner | None] = [ARG_EXTREMES[combiner], Combiner.ADD]
    else:
        names = _names(em, op, inputs)
        by_reducers = _by_reducers(em, names, inputs, dimensions)
        if by_reducers is None and not all(isinstance(extent, int) for extent in extents):
            return _by_halving(em, op, inputs, dimensions, inits)
        reduced = by_reducers or _by_halving(em, op, inputs, dimensions)
    if all(map(_is_neutral, [em] * count, names, inits)):
        return reduced
    return combine(em, em.scalar_function(op.block(0)), inits, reduced)


def _is_neutral(em: Emitter, combiner: Combiner | None, init: Parts) -> bool:
    return combiner is not None and all(is_neutral(em, combiner, part) for part in init)


# -- regions that ONNX has a reducer for -------------------------------------------------------


def _names(em: Emitter, op: Op, inputs: Sequence[Parts]) -> list[Combiner | None]:
    """The combiner of each operand; of complex ones only the sum acts on re and im separately."""
    return [
        name if len(parts) == 1 or name == Combiner.ADD else None
        for name, parts in zip(recognise_each(em, op.block(0)), inputs, strict=True)
    ]


def _by_reducers(
    em: Emitter,
    names: Sequence[Combiner | None],
    inputs: Sequence[Parts],
    dimensions: Sequence[int],
) -> list[Parts] | None:
    """One ONNX reduction an operand; None if one of the combiners has none."""
    reduced: list[Parts] = []
    for name, parts in zip(names, inputs, strict=True):
        if name is None or not has_reducer(name, dtype_of(parts[0])):
            return None
        reduced.append(tuple(reduce_axes(em, name, part, dimensions) for part in parts))
    return reduced


# -- argmax and argmin -------------------------------------------------------------------------


def _by_arg_extreme(
    em: Emitter, combiner: Combiner, inputs: Sequence[Parts], axis: int
) -> list[Parts]:
    """ArgMax or ArgMin, and the value found there."""
    (x,), (indices,) = inputs
    index = first_extreme(em, combiner, x, axis)
    value = em.GatherElements(x, em.unsqueeze(index, [axis]), axis=axis)
    return [(em.squeeze(value, [axis]),), (em.cast(index, dtype_of(indices)),)]


# -- any other region --------------------------------------------------------------------------


def _by_halving(
    em: Emitter,
    op: Op,
    inputs: Sequence[Parts],
    dimensions: Sequence[int],
    inits: Sequence[Parts] | None = None,
) -> list[Parts]:
    """The reduced dimensions as one leading axis, halved until it is 1.

    Args:
        inits: Go in front of all elements, where there may be none.
    """
    dims = shape_of(inputs[0][0])
    kept = [axis for axis in range(len(dims)) if axis not in dimensions]
    order = [*sorted(dimensions), *kept]
    rows = product(dims[axis] for axis in dimensions)
    kept_dims = [dims[axis] for axis in kept]
    leading = each(lambda x: em.reshape(em.transpose(x, order), [rows, *kept_dims]), inputs)
    if inits is not None:
        first = each(lambda init: em.expand(init, [1, *kept_dims]), inits)
        leading = each(lambda *parts: em.concat(parts, 0), first, leading)
    halved = halve(em, em.scalar_function(op.block(0)), leading)
    return each(lambda x: em.reshape(x, kept_dims), halved)
