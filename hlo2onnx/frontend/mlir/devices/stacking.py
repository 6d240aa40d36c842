"""Ops of StableHLO on the values of several devices at once: how each gets a leading axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo2onnx.frontend.mlir.attributes import keys_of, to_python
from hlo2onnx.frontend.mlir.devices.per_device import PerDevice, Rows
from hlo2onnx.frontend.mlir.devices.tensors import (
    broadcast,
    constant,
    extents,
    i64,
    i64s,
    in_place,
    joined,
    pieces_of,
    rearranged,
    scalar,
    split,
    tensor,
)
from hlo2onnx.frontend.mlir.shardings import SHARDINGS
from hlo2onnx.frontend.mlir.types import shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, made

Operands = Sequence[PerDevice]


def stacked_results(
    operation: ir.Operation, operands: Operands, rows: Rows
) -> Sequence[MlirValue] | None:
    """The results of an op for all rows, along a leading axis.

    Args:
        operands: Its operands. They are all that it reads.
        rows: What tells the devices apart: more than one row.

    Returns:
        None if the op has no such form, or not with these operands.
    """
    dialect, _, name = operation.name.partition(".")
    if dialect == "sdy":  # says where a tensor lies
        return [operands[0].by(rows) for _ in operation.results]
    if name in _FORMS:
        return _shifted(operation, operands, rows, _FORMS[name])
    if name in _RULES:
        return _RULES[name](operation, operands, rows)
    return _elementwise(operation, operands, rows) if name in _ELEMENTWISE else None


def _made(
    operation: ir.Operation,
    operands: Sequence[MlirValue],
    types: Sequence[ir.Type],
    **changed: ir.Attribute,
) -> list[MlirValue]:
    """An op like another one, with other operands, types and attributes."""
    names = [name for name in keys_of(operation.attributes) if name not in SHARDINGS]
    attributes = {name: operation.attributes[name] for name in names} | changed
    given = operation.clone().operation
    new = ir.Operation.create(
        operation.name, types, operands, attributes, regions=len(given.regions)
    )
    for old, region in zip(given.regions, new.regions, strict=True):
        old.blocks[0].append_to(region)
    given.erase()
    return list(new.results)


def _with_axis(operation: ir.Operation, count: int) -> list[ir.Type]:
    """The types of the results with a leading axis."""
    return [tensor([count, *shape_of(x.type)], x.type) for x in operation.results]


def _count(rows: Rows) -> int:
    return max(rows) + 1


def _is_shared(*operands: PerDevice) -> bool:
    return all(x.count == 1 for x in operands)


# -- ops of elements ------------------------------------------------------------------------------

_STABLEHLO = (
    "abs add and atan2 cbrt ceil clamp compare complex convert cosine count_leading_zeros divide"
    " exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum"
    " minimum multiply negate not or popcnt power real reduce_precision remainder round_nearest_afz"
    " round_nearest_even rsqrt select shift_left shift_right_arithmetic shift_right_logical sign"
    " sine sqrt subtract tan tanh xor"
)
_CHLO = (
    "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf"
    " is_neg_inf is_pos_inf lgamma mulhi next_after polygamma sinh square zeta"
)
_ELEMENTWISE = frozenset([*_STABLEHLO.split(), *_CHLO.split()])


def _elementwise(operation: ir.Operation, operands: Operands, rows: Rows) -> list[MlirValue]:
    """Scalars beside tensors, as in select and clamp, remain so if the devices share them."""
    ranks = [len(shape_of(x.type)) for x in operation.operands]
    rank, found = max(ranks), []
    for x, own in zip(operands, ranks, strict=True):
        if own == rank:
            found.append(x.by(rows))
        elif _is_shared(x):
            found.append(x.tensors[0])
        else:
            found.append(broadcast(x.by(rows), extents(operands[ranks.index(rank)].by(rows)), [0]))
    return _made(operation, found, _with_axis(operation, _count(rows)))


# -- ops whose axes have numbers ------------------------------------------------------------------


class _Form(NamedTuple):
    """How an op gets a leading axis. As many operands as it has results have the axis; the others
    must be the same on all devices.

    Attributes:
        axes: Attributes that hold numbers of axes, which grow by one; a list may have a new first
            entry.
        heads: Attributes with an entry for each axis, with the new one. None is the count of rows.
        vectors: The same for operands without the axis, by their number among these.
        is_all: Whether all operands have the axis.
    """

    axes: Mapping[str, tuple[int, ...]] = {}
    heads: Mapping[str, int | None] = {}
    vectors: Mapping[int, tuple[int | None]] = {}
    is_all: bool = False


_FORMS: Mapping[str, _Form] = {
    "bitcast_convert": _Form(),
    "broadcast_in_dim": _Form(axes={"broadcast_dimensions": (0,)}),
    "cholesky": _Form(),
    "concatenate": _Form(axes={"dimension": ()}, is_all=True),
    "dynamic_broadcast_in_dim": _Form(
        axes={
            "broadcast_dimensions": (0,),
            "known_expanding_dimensions": (),
            "known_nonexpanding_dimensions": (),
        },
        vectors={0: (None,)},
    ),
    "dynamic_pad": _Form(vectors={1: (0,), 2: (0,), 3: (0,)}),
    "dynamic_reshape": _Form(vectors={0: (None,)}),
    "fft": _Form(),
    "optimization_barrier": _Form(),
    "pad": _Form(heads={"edge_padding_low": 0, "edge_padding_high": 0, "interior_padding": 0}),
    "real_dynamic_slice": _Form(vectors={0: (0,), 1: (None,), 2: (1,)}),
    "reduce": _Form(axes={"dimensions": ()}),
    "reduce_window": _Form(
        heads={
            "window_dimensions": 1,
            "window_strides": 1,
            "base_dilations": 1,
            "window_dilations": 1,
            "padding": 0,
        }
    ),
    "reshape": _Form(),
    "reverse": _Form(axes={"dimensions": ()}),
    "slice": _Form(heads={"start_indices": 0, "limit_indices": None, "strides": 1}),
    "sort": _Form(axes={"dimension": ()}),
    "top_k": _Form(),
    "transpose": _Form(axes={"permutation": (0,)}),
    "triangular_solve": _Form(is_all=True),
}


def _shifted(
    operation: ir.Operation, operands: Operands, rows: Rows, form: _Form
) -> list[MlirValue] | None:
    count, own = _count(rows), len(operands) if form.is_all else len(operation.results)
    if not _is_shared(*operands[own:]):
        return None
    changed, given = (
        {},
        {name: operation.attributes[name] for name in keys_of(operation.attributes)},
    )
    for name in form.axes.keys() & given.keys():
        value = to_python(given[name])
        if isinstance(value, tuple):
            changed[name] = i64s([*form.axes[name], *_moved(value)])
        else:
            changed[name] = i64(value + (value >= 0))  # -1 is the last axis
    for name in form.heads.keys() & given.keys():
        head, value = form.heads[name], to_python(given[name])
        if isinstance(value, np.ndarray):  # pairs, as of paddings
            changed[name] = ir.DenseElementsAttr.get(np.insert(value, 0, head or 0, axis=0))
        else:
            changed[name] = i64s([count if head is None else head, *value])
    found = [x.by(rows) for x in operands[:own]]
    for place, (x,) in enumerate(x.tensors for x in operands[own:]):
        entries = [count if size is None else size for size in form.vectors.get(place, ())]
        found.append(joined([constant(np.array(entries), x.type), x], 0) if entries else x)
    return _made(operation, found, _with_axis(operation, count), **changed)


# -- products -------------------------------------------------------------------------------------


def _dot_general(operation: ir.Operation, operands: Operands, rows: Rows) -> list[MlirValue]:
    """Rows times their rows; or all rows of one operand times all of the other, as a product
    without a new batch axis, if these are the rows of the result."""
    name, counts = "dot_dimension_numbers", [x.count for x in operands]
    numbers = to_python(operation.attributes[name])
    batch = [numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions]
    along = [numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions]
    if math.prod(counts) != _count(rows):
        dims = [[0, *_moved(axes)] for axes in batch] + [_moved(axes) for axes in along]
        new = {name: stablehlo.DotDimensionNumbers.get(*dims)}
        types = _with_axis(operation, _count(rows))
        return _made(operation, [x.by(rows) for x in operands], types, **new)
    steps = [min(count, 2) - 1 for count in counts] * 2
    dims = [_moved(axes, step) for axes, step in zip(batch + along, steps, strict=True)]
    shape = list(shape_of(operation.results[0].type))  # batch, then those of each operand
    begins = len(batch[0]), len(shape_of(operation.operands[0].type)) - len(along[0])
    for begin, count in reversed(list(zip(begins, counts, strict=True))):
        shape[begin:begin] = [count] if count > 1 else []
    found = _made(
        operation,
        [x.by(x.rows) for x in operands],
        [tensor(shape, operation.results[0].type)],
        **{name: stablehlo.DotDimensionNumbers.get(*dims)},
    )[0]
    first = [begins[0]] * steps[0] + [begins[1] + steps[0]] * steps[1]
    rest = [[axis] for axis in range(len(shape)) if axis not in first]
    return [rearranged(found, pieces_of(found), [first, *rest])]


def _convolution(operation: ir.Operation, operands: Operands, rows: Rows) -> list[MlirValue] | None:
    """The leading axis is a part of the batch, if the kernel is the same on all devices."""
    x, kernel = operands
    numbers = to_python(operation.attributes["dimension_numbers"])
    if not _is_shared(kernel) or to_python(operation.attributes["batch_group_count"]) > 1:
        return None
    given, batch = x.by(rows), numbers.output_batch_dimension
    order = in_place(pieces_of(given))[1:]
    order[numbers.input_batch_dimension].insert(0, 0)
    (old,), shape = operation.results, list(shape_of(operation.results[0].type))
    shape[batch] = None if (size := shape[batch]) is None else size * _count(rows)
    given = rearranged(given, pieces_of(given), order)
    (found,) = _made(operation, [given, kernel.tensors[0]], [tensor(shape, old.type)])
    pieces = pieces_of(found)
    pieces[batch] = split(pieces[batch][0], _count(rows))
    order = in_place(pieces)
    return [rearranged(found, pieces, [[order[batch].pop(0)], *order])]


def _moved(axes: Sequence[int], step: int = 1) -> list[int]:
    return [axis + step for axis in axes]


# -- slices at computed places --------------------------------------------------------------------


def _gather(operation: ir.Operation, operands: Operands, rows: Rows) -> list[MlirValue]:
    """The leading axis is one of whole slices, of batches, or of the places alone."""
    name = "dimension_numbers"
    numbers = to_python(operation.attributes[name])
    in_x, in_places = (min(each.count, 2) - 1 for each in operands)
    both = [0] * (in_x * in_places)
    new = stablehlo.GatherDimensionNumbers.get(
        [0] * (in_x - len(both)) + _moved(numbers.offset_dims),
        _moved(numbers.collapsed_slice_dims, in_x),
        both + _moved(numbers.operand_batching_dims, in_x),
        both + _moved(numbers.start_indices_batching_dims, in_places),
        _moved(numbers.start_index_map, in_x),
        numbers.index_vector_dim + in_places,
    )
    head = [1 if both else _count(rows)] * in_x
    return _made(
        operation,
        [each.by(rows) if each.count > 1 else each.tensors[0] for each in operands],
        _with_axis(operation, _count(rows)),
        slice_sizes=i64s([*head, *to_python(operation.attributes["slice_sizes"])]),
        indices_are_sorted=ir.BoolAttr.get(False),
        **{name: new},
    )


def _scatter(operation: ir.Operation, operands: Operands, rows: Rows) -> list[MlirValue]:
    """The leading axis is one of whole windows, or of batches if the places differ."""
    name, count = "scatter_dimension_numbers", len(operation.results)
    numbers, places = to_python(operation.attributes[name]), operands[count]
    both = [0] * (places.count > 1)
    new = stablehlo.ScatterDimensionNumbers.get(
        [0] * (1 - len(both)) + _moved(numbers.update_window_dims),
        _moved(numbers.inserted_window_dims),
        both + _moved(numbers.input_batching_dims),
        both + _moved(numbers.scatter_indices_batching_dims, len(both)),
        _moved(numbers.scattered_dims_to_operand_dims),
        numbers.index_vector_dim + len(both),
    )
    found = [x.by(rows) for x in operands]
    if not both:
        found[count] = places.tensors[0]
    types, unsorted = _with_axis(operation, _count(rows)), ir.BoolAttr.get(False)
    return _made(operation, found, types, indices_are_sorted=unsorted, **{name: new})


def _dynamic_slice(operation: ir.Operation, operands: Operands, rows: Rows) -> list[MlirValue]:
    """If the places differ, a gather, which clamps them as well."""
    x, *places = operands
    sizes, count = list(to_python(operation.attributes["slice_sizes"])), _count(rows)
    types = _with_axis(operation, count)
    if _is_shared(*places):
        found = [x.by(rows), scalar(0, places[0].tensors[0].type), *(i.tensors[0] for i in places)]
        return _made(operation, found, types, slice_sizes=i64s([count, *sizes]))
    both, axes = [0] * (x.count > 1), list(range(1, len(sizes) + 1))
    numbers = stablehlo.GatherDimensionNumbers.get(
        axes, [], both, both, _moved(axes, len(both) - 1), 1
    )
    return [
        made(
            "gather",
            types[0],
            x.by(rows) if both else x.tensors[0],
            _columns([i.by(rows) for i in places]),
            dimension_numbers=numbers,
            slice_sizes=i64s([1] * len(both) + sizes),
        )
    ]


def _dynamic_update_slice(
    operation: ir.Operation, operands: Operands, rows: Rows
) -> list[MlirValue] | None:
    """If the places differ, a scatter, which does not clamp them."""
    x, update, *places = operands
    types = _with_axis(operation, _count(rows))
    if _is_shared(*places):
        zero = scalar(0, places[0].tensors[0].type)
        return _made(
            operation, [x.by(rows), update.by(rows), zero, *(i.tensors[0] for i in places)], types
        )
    shapes = [shape_of(given.type) for given in operation.operands[:2]]
    if None in (*shapes[0], *shapes[1]):
        return None
    clamped = []
    for i, size, part in zip(places, *shapes, strict=True):
        index = i.by(rows)
        ends = (scalar(end, index.type) for end in (0, (size or 0) - (part or 0)))
        least, most = ends
        clamped.append(made("clamp", index.type, least, index, most))
    axes = list(range(1, len(places) + 1))
    numbers = stablehlo.ScatterDimensionNumbers.get(axes, [], [0], [0], axes, 1)
    new = ir.Operation.create(
        "stablehlo.scatter",
        types,
        [x.by(rows), _columns(clamped), update.by(rows)],
        {"scatter_dimension_numbers": numbers, "unique_indices": ir.BoolAttr.get(True)},
        regions=1,
    )
    block = new.regions[0].blocks.append(*[tensor([], types[0])] * 2)
    with ir.InsertionPoint(block):
        ir.Operation.create("stablehlo.return", operands=[block.arguments[1]])
    return list(new.results)


def _columns(xs: Sequence[MlirValue]) -> MlirValue:
    """Vectors as the columns of a matrix."""
    return joined([rearranged(x, [extents(x)], [[0], []]) for x in xs], 1)


_RULES: Mapping[str, Callable[[ir.Operation, Operands, Rows], Sequence[MlirValue] | None]] = {
    "convolution": _convolution,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
}
