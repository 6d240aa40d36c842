"""Superword-level parallelism: equal expressions of several columns as one expression of vectors.

A pack is a tuple of values of one shape, its lanes. It is computed as one value that has the lanes
next to each other along an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import prod

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.op_families import BROADCASTING, UNARY
from hlo2onnx.ir.values import FLOATS, attributes_of, const_of, dtype_of, shape_of, static_shape
from hlo2onnx.raising.engine import Rewriter, need
from hlo2onnx.raising.match.views import RESHAPES, first, maker_of, operands, ranges_of

Lanes = tuple[oir.Value, ...]
Make = Callable[[], oir.Value]
"""Makes a pack at the first call."""

MOST_PACKS = 200
"""Packs of one expression: a limit on compile time, not a cost."""
MOST_CONSTANTS = 1 << 12
"""Elements of a constant that is stored for several lanes: a limit on the size of the model."""


@dataclass(frozen=True)
class Column:
    """A part of extent 1 along some axes of a tensor, perhaps in another shape.

    Attributes:
        source: The tensor.
        place: The index along each of these axes.
    """

    source: oir.Value
    place: dict[int, int]


@dataclass
class Packer:
    """Computes packs. Nodes are made when all lanes are known to fit.

    Attributes:
        b: The builder.
        axis: The axis of the lanes, counted from the last axis: -1 or less.
        inserted: Whether lanes get this axis, instead of having it with extent 1.
        read: The values outside the expression that the packs are computed from.
        least: How many nodes all packs take at least.
    """

    b: Rewriter
    axis: int
    inserted: bool
    read: set[oir.Value] = field(default_factory=set)
    least: int = 0
    _known: dict[Lanes, Make] = field(default_factory=dict)

    def pack(self, lanes: Lanes) -> Make:
        """The lanes next to each other; equal lanes stay one lane that broadcasts.

        Raises:
            Refusal: The lanes do not fit together.
        """
        if lanes not in self._known:
            need(len(self._known) < MOST_PACKS, "the expression is too long")
            need(len({dtype_of(lane) for lane in lanes}) == 1, "the parts differ in type")
            self._known[lanes] = cache(self._packed(lanes))
        return self._known[lanes]

    def _packed(self, lanes: Lanes) -> Make:
        if all(lane is lanes[0] for lane in lanes):
            return self._alone(lanes[0])
        for form in (self._constants, self._columns, self._results):
            packed = form(lanes)
            if packed is not None:
                return packed
        return self._joined(lanes)

    def lane_shape(self, value: oir.Value) -> tuple[int, ...]:
        """The shape of a lane with the axis, of extent 1.

        Raises:
            Refusal: It is dynamic, or the extent is another one.
        """
        dims = static_shape(value)
        need(dims is not None, "a shape is dynamic", value)
        assert dims is not None
        shape = (1,) * (-self.axis - len(dims) - self.inserted) + tuple(dims)
        if self.inserted:
            place = len(shape) + self.axis + 1
            return (*shape[:place], 1, *shape[place:])
        need(shape[self.axis] == 1, "a part has several columns", value)
        return shape

    def _alone(self, lane: oir.Value) -> Make:
        """A lane that broadcasts along the axis."""
        shape = self.lane_shape(lane)
        self.read.add(lane)
        dims = shape_of(lane)
        if (1,) * (len(shape) - len(dims)) + tuple(dims) == shape:
            return lambda: lane
        self.least += 1
        return partial(self.b.reshape, lane, shape)

    def _joined(self, lanes: Lanes) -> Make:
        """A Concat of lanes that have nothing in common."""
        shapes = [self.lane_shape(lane) for lane in lanes]
        need(len(set(shapes)) == 1, "the parts differ in shape")
        self.read.update(lanes)
        self.least += 1 + sum(shape_of(lane) != shapes[0] for lane in dict.fromkeys(lanes))
        return lambda: self.b.concat([self.b.reshape(x, shapes[0]) for x in lanes], self.axis)

    def _constants(self, lanes: Lanes) -> Make | None:
        arrays = [const_of(lane) for lane in lanes]
        known = [array for array in arrays if array is not None]
        if len(known) < len(lanes):
            return None
        shaped = [
            array.reshape(self.lane_shape(lane)) for array, lane in zip(known, lanes, strict=True)
        ]
        rank = max(array.ndim for array in shaped)
        shaped = [array.reshape((1,) * (rank - array.ndim) + array.shape) for array in shaped]
        others = np.broadcast_shapes(*(array.shape for array in shaped))
        need(len(lanes) * prod(others) <= MOST_CONSTANTS, "the constants are large", lanes[0])
        whole = [np.broadcast_to(array, others) for array in shaped]
        return lambda: self.b.const(np.concatenate(whole, self.axis))

    def _columns(self, lanes: Lanes) -> Make | None:
        """Columns of one tensor: the tensor, a Slice of it, or a Gather."""
        columns: list[Column] = []
        for lane in lanes:
            column = column_of(lane)
            if column is None:
                return None
            columns.append(column)
        if len({shape_of(lane) for lane in lanes}) > 1:
            return None
        source, place = columns[0].source, columns[0].place
        if any(one.source is not source or one.place.keys() != place.keys() for one in columns):
            return None
        moving = [axis for axis in place if len({one.place[axis] for one in columns}) > 1]
        if len(moving) != 1:
            return None
        (axis,) = moving
        shape = list(self.lane_shape(lanes[0]))
        shape[self.axis] = len(lanes)
        before = [1 if k in place else dim for k, dim in enumerate(shape_of(source)[:axis])]
        if prod(_fixed(before)) == prod(shape[: self.axis]):
            self.read.add(source)
            return lambda: self.b.reshape(self._taken(columns, axis), shape)
        return None

    def _taken(self, columns: Sequence[Column], axis: int) -> oir.Value:
        """Columns of one tensor that differ along this axis."""
        indices = [one.place[axis] for one in columns]
        cut = {k: range(start, start + 1) for k, start in columns[0].place.items()}
        following = range(indices[0], indices[0] + len(indices))
        if indices == list(following):
            cut[axis] = following
        else:
            del cut[axis]
        starts, stops = [rows.start for rows in cut.values()], [rows.stop for rows in cut.values()]
        taken = self.b.slice(columns[0].source, starts, stops, axes=list(cut))
        return taken if axis in cut else self.b.op("Gather", taken, self.b.i64(indices), axis=axis)

    def _results(self, lanes: Lanes) -> Make | None:
        """The results of the same operator, or of Add and Sub."""
        nodes = [maker_of(lane, *BROADCASTING, *UNARY) for lane in lanes]
        makers = [node for node in nodes if node is not None and dtype_of(node.outputs[0])]
        if len(makers) < len(lanes) or len({dtype_of(first(node)) for node in makers}) > 1:
            return None
        ops = {node.op_type for node in makers}
        if ops == {"Add", "Sub"} and dtype_of(lanes[0]) in FLOATS:
            return self._sums(makers)
        alike = len(ops) == 1 and all(attributes_of(x) == attributes_of(makers[0]) for x in makers)
        if not alike or len({len(operands(node)) for node in makers}) > 1:
            return None
        packs = [self.pack(lane) for lane in zip(*map(operands, makers), strict=True)]
        self.least += 1
        return lambda: self.b.like(makers[0], [make() for make in packs])

    def _sums(self, makers: Sequence[oir.Node]) -> Make:
        """x + y in some lanes and x - y in others, as x + sign * y."""
        left, right = zip(*map(operands, makers), strict=True)
        signs = np.array([1 if node.op_type == "Add" else -1 for node in makers])
        signs = signs.astype(dtype_of(right[0]).numpy()).reshape(-1, *(1,) * (-self.axis - 1))
        x, y = self.pack(left), self.pack(right)
        self.least += 2
        return lambda: self.b.Add(x(), self.b.Mul(y(), self.b.const(signs)))


def elements_before(x: oir.Value, axis: int) -> int:
    """The product of the extents before an axis of a static shape."""
    return prod(_fixed(shape_of(x)[:axis]))


def column_of(value: oir.Value) -> Column | None:
    """The column of a tensor that a value is: an output of Split or a Slice, perhaps of another
    column, and perhaps reshaped at the end."""
    while (node := maker_of(value, *RESHAPES)) is not None:
        value = first(node)
    column: Column | None = None
    while (cut := _cut(value)) is not None:
        source, place = cut
        column = Column(source, (column.place if column else {}) | place)
        value = source
    return column


def _cut(value: oir.Value) -> tuple[oir.Value, dict[int, int]] | None:
    """What a Split or Slice takes columns of, and which."""
    node = maker_of(value, "Slice", "Split")
    if node is None or static_shape(first(node)) is None:
        return None
    source = first(node)
    if node.op_type == "Split":
        axis, index = node.attributes.get_int("axis", 0) % len(shape_of(source)), value.index()
        is_thin = index is not None and all(shape_of(part)[axis] == 1 for part in node.outputs)
        return (source, {axis: index}) if is_thin and index is not None else None
    ranges = ranges_of(node)
    if not ranges or any(len(rows) > 1 for rows in ranges.values()):
        return None
    return source, {axis: rows.start for axis, rows in ranges.items()}


def _fixed(dims: Sequence[object]) -> list[int]:
    return [dim for dim in dims if isinstance(dim, int)]
