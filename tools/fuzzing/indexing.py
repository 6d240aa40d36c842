"""gather, dynamic_slice, dynamic_update_slice, scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tools.fuzzing.builder import MAX_SIZE, Builder, Unsuitable
from tools.fuzzing.elements import (
    ALL,
    BOOL,
    COMMON_FLOATS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    MODERATE,
    REAL,
    SMALL_FLOATS,
)
from tools.fuzzing.elementwise import away_from_edges
from tools.fuzzing.indices import index_tensor, start
from tools.fuzzing.movement import is_dynamic_slice, moved, start_types
from tools.fuzzing.program import Made, Quality, Type, Value, ints, together
from tools.fuzzing.reductions import body, combined_grid


@dataclass(frozen=True)
class Layout:
    """Windows into an operand.

    Attributes:
        sizes: Extents of a window.
        inner: Axes of extent 1 that windows lack: collapsed or inserted ones.
        batching: By batching axis of the operand the axis of the batch that it runs along.
        batch: Extents of the indices without their vectors.
        starts: The axis that each place of an index vector is about.
        vector: Where the index vectors are; the rank where the indices are no vectors.
        implicit: Whether they are none.
    """

    sizes: tuple[int, ...]
    inner: tuple[int, ...]
    batching: dict[int, int]
    batch: tuple[int, ...]
    starts: tuple[int, ...]
    vector: int
    implicit: bool

    @property
    def window(self) -> list[int]:
        """Extents of the axes that a window has."""
        gone = {*self.inner, *self.batching}
        return [size for axis, size in enumerate(self.sizes) if axis not in gone]

    @property
    def indices(self) -> tuple[int, ...]:
        """Extents of the indices."""
        if self.implicit:
            return self.batch
        return (*self.batch[: self.vector], len(self.starts), *self.batch[self.vector :])

    @property
    def index_batching(self) -> list[int]:
        """Axes of the indices along which the operand's batching axes run."""
        return [
            along + (along >= self.vector and not self.implicit)
            for _, along in sorted(self.batching.items())
        ]

    @property
    def free(self) -> int:
        """Windows for each batch of the operand."""
        along = self.batching.values()
        return math.prod(dim for axis, dim in enumerate(self.batch) if axis not in along)

    def limits(self, dims: Sequence[int]) -> list[int]:
        """The last start inside along each axis of an index vector."""
        return [dims[axis] - self.sizes[axis] for axis in self.starts]


def _layout(b: Builder, dims: Sequence[int]) -> Layout:
    rng, axes = b.rng, range(len(dims))
    count = rng.choice([0, 0, 0, 1, 1, 2])
    batching = sorted(rng.sample(axes, min(count, len(dims))))
    sizes, inner = [], []
    for axis, dim in enumerate(dims):
        small = rng.choice([1, 1, 2, rng.randint(0, dim)])
        size = min(dim, rng.choice([dim, 1, small]))
        if axis in batching:
            size = min(dim, 1)
        elif dim and rng.random() < 0.4:
            size = 1
            inner.append(axis)
        sizes.append(size)
    movable = [axis for axis in axes if axis not in batching]
    starts = [
        axis for axis in movable if rng.random() < (0.85 if sizes[axis] < dims[axis] else 0.2)
    ]
    if rng.random() < 0.5:
        rng.shuffle(starts)
    runs = [*batching, *(None for _ in range(rng.choice([0, 1, 1, 1, 2])))]
    rng.shuffle(runs)
    extents = [1, 2, 3, 3, 4, 5, 8, 0 if rng.random() < 0.1 else 6]
    batch = [rng.choice(extents) if axis is None else dims[axis] for axis in runs]
    along = {axis: place for place, axis in enumerate(runs) if axis is not None}
    implicit = len(starts) == 1 and rng.random() < 0.3
    vector = len(batch) if implicit else rng.randint(0, len(batch))
    if math.prod(batch) * math.prod(sizes) > MAX_SIZE or math.prod(batch) > 40:
        raise Unsuitable
    return Layout(tuple(sizes), tuple(inner), along, tuple(batch), tuple(starts), vector, implicit)


def _mixed_shape(b: Builder, layout: Layout) -> tuple[list[int], tuple[int, ...]]:
    """Where the window's axes go among those of the batch; and the shape of both together."""
    window, batch = layout.window, list(layout.batch)
    rank = len(window) + len(batch)
    places = sorted(b.rng.sample(range(rank), len(window)))
    if b.rng.random() < 0.4:
        places = list(range(len(batch), rank))
    rest, inside = iter(batch), iter(window)
    return places, tuple(next(inside) if i in places else next(rest) for i in range(rank))


def _any(b: Builder, ranks: Sequence[int] = range(5)) -> Value:
    elements = ALL + SMALL_FLOATS if b.rng.random() < 0.15 else ALL
    return b.operand(elements, ranks, quality=Quality.CLOSE)


# -- gather and slices ------------------------------------------------------------------------


def gather(b: Builder) -> None:
    x = _any(b)
    layout = _layout(b, x.type.shape)
    indices = index_tensor(b, layout.indices, layout.vector, layout.limits(x.type.shape))
    offsets, shape = _mixed_shape(b, layout)
    text = (
        f"dimension_numbers = #stablehlo.gather<offset_dims = {offsets},"
        f" collapsed_slice_dims = {list(layout.inner)},"
        f" operand_batching_dims = {sorted(layout.batching)},"
        f" start_indices_batching_dims = {layout.index_batching},"
        f" start_index_map = {list(layout.starts)}, index_vector_dim = {layout.vector}>,"
        f" slice_sizes = {ints(layout.sizes)}"
    )
    moved(b, "gather", [x], shape, text, [indices])


def dynamic_slice(b: Builder) -> None:
    x = _any(b, range(1, 5))
    if is_dynamic_slice(b, x):
        raise Unsuitable
    sizes, starts = _part(b, x.type.shape)
    moved(b, "dynamic_slice", [x], sizes, f"slice_sizes = {ints(sizes)}", starts)


def dynamic_update_slice(b: Builder) -> None:
    x = _any(b, range(1, 5))
    sizes, starts = _part(b, x.type.shape)
    update = b.like(Type(x.type.element, sizes), Quality.CLOSE)
    moved(b, "dynamic_update_slice", [x, update], x.type.shape, indices=starts)


def _part(b: Builder, dims: Sequence[int]) -> tuple[tuple[int, ...], list[Value]]:
    """Extents of a part of a tensor, and where it begins."""
    sizes = tuple(b.rng.choice([dim, min(dim, 1), b.rng.randint(0, dim)]) for dim in dims)
    element = b.rng.choice(start_types(b))
    return sizes, [start(b, element, dim - size) for dim, size in zip(dims, sizes, strict=True)]


# -- scatter ----------------------------------------------------------------------------------

_COMBINERS = {
    "set": ALL + SMALL_FLOATS,
    "keep": ALL,
    "add": INTEGERS + COMMON_FLOATS + COMPLEX,
    "subtract": INTEGERS + COMMON_FLOATS + COMPLEX,
    "from": INTEGERS + COMMON_FLOATS,
    "multiply": REAL + BOOL + COMPLEX,
    "maximum": REAL + BOOL,
    "minimum": REAL + BOOL,
    "and": INTEGERS + BOOL,
    "or": INTEGERS + BOOL,
    "xor": INTEGERS + BOOL,
    "greater": REAL,
    "twice": INTEGERS,
}
_SUMS = ("add", "subtract", "from", "multiply")


def scatter(b: Builder) -> None:
    combiners = [b.rng.choice([*_COMBINERS, "set", "add", "add"])]
    inputs = [_target(b, combiners[0], None)]
    while b.rng.random() < 0.15 and len(inputs) < 3:
        combiners.append(b.rng.choice(list(_COMBINERS)))
        inputs.append(_target(b, combiners[-1], inputs[0].type.shape))
    if len({x.type.element for x in inputs if x.type.element in FLOATS + COMPLEX}) > 1:
        raise Unsuitable  # XLA does not take float types side by side
    if len({x.index for x in inputs}) < len(inputs):
        raise Unsuitable  # XLA writes into the one buffer of both
    dims = inputs[0].type.shape
    layout = _layout(b, dims)
    if not layout.starts and layout.free > 1:
        # XLA applies the last window only, or does not compile it.
        raise Unsuitable
    indices = index_tensor(b, layout.indices, layout.vector, layout.limits(dims))
    places, shape = _mixed_shape(b, layout)
    updates = [
        _like(b, name, Type(x.type.element, shape))
        for name, x in zip(combiners, inputs, strict=True)
    ]
    count = math.prod(layout.batch)
    made = [
        _combined(b, name, x, update, count)
        for name, x, update in zip(combiners, inputs, updates, strict=True)
    ]
    region = body(combiners, [x.type.element for x in inputs])
    text = (
        f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {places},"
        f" inserted_window_dims = {list(layout.inner)},"
        f" input_batching_dims = {sorted(layout.batching)},"
        f" scatter_indices_batching_dims = {layout.index_batching},"
        f" scatter_dims_to_operand_dims = {list(layout.starts)},"
        f" index_vector_dim = {layout.vector}>,"
        f" unique_indices = {_are_unique(b, layout, indices, dims)}"
    )
    scale = MODERATE * (count + 1) if {"add", "subtract", "from"} & {*combiners} else 0.0
    operands = [*inputs, indices, *updates]
    b.step("scatter", operands, made, text, region, scale=scale)


def _target(b: Builder, combiner: str, shape: Sequence[int] | None) -> Value:
    elements, sums = _COMBINERS[combiner], combiner in _SUMS
    if shape is not None:
        return _like(b, combiner, Type(b.rng.choice(elements), tuple(shape)))
    x = b.operand(elements, range(5), _quality(combiner), moderate=sums)
    return away_from_edges(b, x) if sums else x


def _like(b: Builder, combiner: str, type_: Type) -> Value:
    sums = combiner in _SUMS
    x = b.like(type_, _quality(combiner), moderate=sums)
    return away_from_edges(b, x) if sums else x


def _quality(combiner: str) -> Quality:
    return Quality.CLOSE if combiner in ("set", "keep") else Quality.EQUAL


def _combined(b: Builder, combiner: str, x: Value, update: Value, count: int) -> Made:
    """The result's type, how exact it is, and the grid it is on."""
    quality, grid, _ = together(x, update)
    if combiner in ("set", "keep"):
        return x.type, quality, grid
    grid = combined_grid(combiner, x.type.element, grid, max(count, 1))
    return b.result(x.type.element, x.type.shape, grid, inexact=combiner in _SUMS)


# -- uniqueness -------------------------------------------------------------------------------


def _are_unique(b: Builder, layout: Layout, indices: Value, dims: Sequence[int]) -> str:
    known = b.known.get(indices.index)
    if known is None or b.rng.random() < 0.4:
        return "false"
    vectors = known[..., None] if layout.implicit else np.moveaxis(known, layout.vector, -1)
    written, firsts = np.zeros(dims, int), set()
    for place in np.ndindex(*layout.batch):
        first = [0] * len(dims)
        for axis, at in zip(layout.starts, vectors[place].tolist(), strict=True):
            first[axis] = at
        for axis, along in layout.batching.items():
            first[axis] = place[along]
        firsts.add(tuple(first))
        ends = [at + size for at, size in zip(first, layout.sizes, strict=True)]
        if all(at >= 0 and end <= dim for at, end, dim in zip(first, ends, dims, strict=True)):
            written[tuple(map(slice, first, ends))] += 1
    is_distinct = len(firsts) == math.prod(layout.batch)
    return str(is_distinct and not (written > 1).any()).lower()


STEPS = {gather: 6, scatter: 9, dynamic_slice: 2, dynamic_update_slice: 3}
