"""Forms that JAX lowers indexing to: take and take_along_axis that fill, one_hot; and the gradient
of pooling by selection.
"""

from __future__ import annotations

import math

import numpy as np

from tools.fuzzing.builder import MAX_SIZE, Builder, Unsuitable
from tools.fuzzing.elements import (
    ALL,
    COMMON_FLOATS,
    INTEGERS,
    MODERATE,
    integer_range,
)
from tools.fuzzing.elementwise import select_of
from tools.fuzzing.indices import apply, filled, index_tensor, normalized
from tools.fuzzing.movement import moved
from tools.fuzzing.program import Grid, Quality, Type, Value, comparing, ints
from tools.fuzzing.reductions import body, combined_grid, neutral


def take(b: Builder) -> None:
    """x[i] along an axis, of rows or (as take_along_axis) of elements; filled where outside."""
    x = b.operand(ALL, range(1, 4), quality=Quality.CLOSE)
    dims = x.type.shape
    axis = b.rng.randrange(len(dims))
    along = len(dims) > 1 and b.rng.random() < 0.4
    batch = list(dims) if along else list(b.shape(b.rng.choice([0, 1, 1, 2])))
    if along:
        batch[axis] = b.rng.randint(1, 4)
    extent = dims[axis]
    shape = tuple(batch) if along else (*dims[:axis], *batch, *dims[axis + 1 :])
    if not extent or (along and 0 in dims) or math.prod(shape) > MAX_SIZE:
        raise Unsuitable
    index = index_tensor(b, (*batch, 1), len(batch), [extent - 1])
    if extent > integer_range(index.type.element)[1]:
        raise Unsuitable
    if b.rng.random() < 0.7:
        index = normalized(b, index, extent)
    others = [other for other in range(len(dims)) if other != axis]
    sizes = [1 if along or other == axis else dim for other, dim in enumerate(dims)]
    offsets = [] if along else [o if o < axis else o + len(batch) - 1 for o in others]
    numbers = (
        f"offset_dims = {offsets}, collapsed_slice_dims = [{axis}], operand_batching_dims ="
        f" {others if along else []}, start_indices_batching_dims = {others if along else []},"
        f" start_index_map = [{axis}], index_vector_dim = {len(batch)}"
    )
    text = (
        f"dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = {ints(sizes)},"
        " indices_are_sorted = false"
    )
    (rows,) = moved(b, "gather", [x], shape, text, [index])
    if b.rng.random() < 0.3:
        return
    inside = _inside(b, index, tuple(batch), extent)
    places = range(len(batch)) if along else range(axis, axis + len(batch))
    select_of(b, b.spread(inside, Type("i1", shape), places), rows, b.like(rows.type))


def _inside(b: Builder, index: Value, batch: tuple[int, ...], extent: int) -> Value:
    """Which indices are inside, as JAX tells: the AND over the index vector."""
    masks = []
    for direction, end in (("GE", 0), ("LE", extent - 1)):
        text = comparing(direction, index.type.element)
        limit = filled(b, index.type, end)
        compare = np.greater_equal if direction == "GE" else np.less_equal
        type_ = Type("i1", index.type.shape)
        masks.append(apply(b, "compare", [index, limit], type_, compare, text))
    both = apply(b, "and", masks, masks[0].type, np.logical_and)
    made = [(Type("i1", batch), Quality.BITS, None)]
    text = f"dimensions = {ints([len(batch)])}"
    return b.step("reduce", [both, b.scalar("i1", True)], made, text, body(["and"], ["i1"]))[0]


def one_hot(b: Builder) -> None:
    shape = b.shape(b.rng.choice([0, 1, 1, 2]))
    depth = b.rng.randint(1, 6)
    index = index_tensor(b, shape, len(shape), [depth - 1])
    axis = b.rng.randint(0, len(shape))
    full = Type(index.type.element, (*shape[:axis], depth, *shape[axis:]))
    if math.prod(full.shape) > MAX_SIZE:
        raise Unsuitable
    spread = b.spread(index, full, [i for i in range(len(full.shape)) if i != axis])
    sides = [spread, b.iota(full, axis)]
    if b.rng.random() < 0.3:
        sides.reverse()
    mask = b.compare("EQ", *sides)
    target = b.rng.choice([name for name in ALL if name != "i1"])
    grid = None if target in INTEGERS else Grid(1, 0)
    b.step("convert", [mask], [(Type(target, full.shape), Quality.BITS, grid)])


def select_and_scatter(b: Builder) -> None:
    # Of equal elements XLA selects one in an order of its own, which changes with the padding.
    x = _distinct(b, Type(b.rng.choice(INTEGERS + COMMON_FLOATS), b.shape(b.rng.choice([1, 2, 3]))))
    sizes, strides, padding, counts = [], [], [], []
    for extent in x.type.shape:
        size = b.rng.randint(1, max(1, extent))
        sizes.append(size)
        strides.append(b.rng.choice([1, 1, 2, 3, size]))
        padding.append([b.rng.choice([0, 0, min(1, size - 1), size - 1]) for _ in range(2)])
        room = extent + sum(padding[-1]) - size
        counts.append(room // strides[-1] + 1 if room >= 0 else 0)
    windows = math.prod(counts)
    combiner = b.rng.choice(["add", "add", "maximum"])
    source = b.like(Type(x.type.element, tuple(counts)), moderate=True)
    element = x.type.element
    start = b.scalar(element, neutral(combiner, element))
    grid = combined_grid(combiner, element, source.grid, windows) if combiner == "add" else None
    made = b.result(element, x.type.shape, grid, inexact=combiner == "add")
    direction = b.rng.choice(["GE", "GE", "LE", "GT"])
    chosen = (
        f"  ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):\n"
        f"    %c = stablehlo.compare {direction}, %a, %b : (tensor<{element}>, tensor<{element}>)"
        " -> tensor<i1>\n    stablehlo.return %c : tensor<i1>"
    )
    text = (
        f"window_dimensions = {ints(sizes)}, window_strides = {ints(strides)},"
        f" padding = dense<{padding}> : tensor<{len(sizes)}x2xi64>"
    )
    region = f"{chosen}\n  }}, {{\n{body([combiner], [element])}"
    scale = MODERATE * (windows + 1)
    b.step("select_and_scatter", [x, source, start], [made], text, region, scale=scale)


def _distinct(b: Builder, type_: Type) -> Value:
    """Small natural numbers, no two of which are equal."""
    count = math.prod(type_.shape)
    array = np.array(b.rng.sample(range(count), count)).reshape(type_.shape)
    return b.given(type_, array, Grid(count, 0) if type_.element in COMMON_FLOATS else None)


STEPS = {take: 3, one_hot: 1, select_and_scatter: 1}
