"""Scatters of many elements whose indices are checked all at once.

JAX adds the extent of an axis to negative indices, and an index outside of the operand changes
nothing. That takes up to ten operators for each index, and most programs have no such index. The
smallest and the largest index tell; then a product and a sum are left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import onnx_ir as oir

from dialect_handlers.common.parts import each, flat, regrouped
from dialect_handlers.common.scatter_updates import Region, scatter_in_order
from dialect_handlers.common.subgraphs import set_outputs
from dialect_handlers.stablehlo.scatter.dimension_numbers import ScatterDimensions
from dialect_handlers.stablehlo.scatter.scatter_indices import Places
from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.values import dtype_of, present, rank_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

INT32 = oir.DataType.INT32


@dataclass(frozen=True)
class GivenIndices:
    """Indices as the program has them before it adds extents to negative ones.

    Attributes:
        columns: The indices along one axis each, as i32.
        added: What is added to the negative ones of each.
        shapes: The shape of each column in the scatter indices.
        vector: The axis of the scatter indices that holds the columns.
    """

    columns: list[oir.Value]
    added: list[int]
    shapes: list[Sequence[int]]
    vector: int

    def normalized(self, em: Emitter) -> oir.Value:
        """The scatter indices, made again."""
        parts = []
        for x, added, shape in zip(self.columns, self.added, self.shapes, strict=True):
            moved = em.Add(x, em.scalar_like(added, x))
            index = em.Where(em.Less(x, em.scalar_like(0, x)), moved, x)
            parts.append(em.reshape(index, shape))
        return parts[0] if len(parts) == 1 else em.concat(parts, self.vector)


def given_indices(
    em: Emitter,
    n: ScatterDimensions,
    region: Region,
    places: Places,
    indices: oir.Value,
    vector: int,
) -> GivenIndices | None:
    """The indices of a scatter of single elements that a check makes faster, else None.

    Args:
        vector: The axis of `indices` that holds the index vector, or its rank.
    """
    elements = n.is_static and n.scatters_leading_rows and n.depth == len(n.dims)
    if not elements or not places.is_narrow or not places.may_miss or None in region.combiners:
        return None
    count = math.prod(fixed(n.batch))
    if count < em.costs.many_elements or vector < rank_of(indices) - 1:
        return None
    maker, parts = indices.producer(), [indices]
    if maker is not None and maker.op_type == "Concat":
        if maker.attributes.get_int("axis", 0) % rank_of(indices) != vector:
            return None
        parts = present(maker.inputs)
    found = [_before_wrapping(em, x) for x in parts]
    columns = [item for item in found if item is not None]
    if len(columns) != len(places.axes) or len(columns) != len(found):
        return None
    if any(dtype_of(x) != INT32 or math.prod(fixed(shape_of(x))) != count for x, _ in columns):
        return None
    return GivenIndices(
        [x for x, _ in columns],
        [added for _, added in columns],
        [fixed(shape_of(x)) for x in parts],
        vector,
    )


def _before_wrapping(em: Emitter, x: oir.Value) -> tuple[oir.Value, int] | None:
    """i and n of Where(i < 0, i + n, i), which may be reshaped."""
    node = x.producer()
    while node is not None and node.op_type == "Reshape" and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.op_type != "Where":
        return None
    condition, moved, given = node.inputs
    less = condition.producer() if condition is not None else None
    add = moved.producer() if moved is not None else None
    if given is None or less is None or add is None:
        return None
    if (less.op_type, less.inputs[0]) != ("Less", given) or add.op_type != "Add":
        return None
    others = [y for y in add.inputs if y is not given]
    numbers = [_uniform(em, y) for y in (less.inputs[1], *others)]
    if len(numbers) != 2 or numbers[0] != 0 or numbers[1] is None:
        return None
    return given, numbers[1]


def _uniform(em: Emitter, x: oir.Value | None) -> int | None:
    """The one number in all elements of a constant; None for any other value."""
    known = None if x is None else em.facts.constant(x)
    if known is None or known.size == 0 or (known != known.flat[0]).any():
        return None
    return int(known.flat[0])


def scatter_checked(
    em: Emitter,
    n: ScatterDimensions,
    region: Region,
    given: GivenIndices,
    axes: Sequence[int],
    xs: Sequence[Parts],
    updates: Sequence[Parts],
    general: Callable[[], list[Parts]],
) -> list[Parts]:
    """A branch for indices that are not negative and inside, and one for any indices.

    Args:
        axes: The axis of the operand for each column.
        general: Makes the scatter of any indices.
    """

    def plain() -> list[Parts]:
        strides = [fixed(n.strides)[axis] for axis in axes]
        terms = [
            x if stride == 1 else em.Mul(x, em.scalar_like(stride, x))
            for x, stride in zip(given.columns, strides, strict=True)
        ]
        count = math.prod(fixed(n.batch))
        index = reduce(em.Add, [em.reshape(x, [count]) for x in terms])
        whole = each(lambda x: em.reshape(x, [math.prod(fixed(n.dims))]), xs)
        order = [n.windows.index(axis) for axis in n.window_order]
        news = each(lambda x: em.reshape(em.transpose(x, order), [count]), updates)
        done = scatter_in_order(em, region, whole, index, news, None, count)
        return each(lambda x: em.reshape(x, n.dims), done)

    inside = _all_inside(em, given.columns, [fixed(n.dims)[axis] for axis in axes])
    graphs = []
    for branch, emit in (("inside", plain), ("general", general)):
        with em.subgraph([], f"{em.scope}/{branch}") as graph:
            set_outputs(em, graph, flat(emit()))
        graphs.append(graph)
    types = [(dtype_of(x), shape_of(x)) for x in flat(xs)]
    attributes = {"then_branch": graphs[0], "else_branch": graphs[1]}
    return regrouped(em.node("If", [inside], attributes, types), xs)


def _all_inside(em: Emitter, columns: Sequence[oir.Value], dims: Sequence[int]) -> oir.Value:
    """Whether all indices of each column are in [0, dim)."""
    lowest = reduce(em.Min, [em.ReduceMin(x, keepdims=0) for x in columns])
    conditions = [em.GreaterOrEqual(lowest, em.scalar_like(0, lowest))]
    for x, dim in zip(columns, dims, strict=True):
        highest = em.ReduceMax(x, keepdims=0)
        conditions.append(em.Less(highest, em.scalar_like(dim, highest)))
    return reduce(em.And, conditions)
