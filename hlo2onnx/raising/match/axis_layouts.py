"""Where the axes of a tensor go in a chain of Transposes, Reshapes and Expands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import onnx_ir as oir

from hlo2onnx.ir.dims import expression, product, quotient
from hlo2onnx.ir.values import Dim, Shape, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, need
from hlo2onnx.raising.match.views import RESHAPES

MAX_CHAIN: Final = 24
"""Longest chain that is followed."""


@dataclass(frozen=True)
class Layout:
    """Where the axes of a tensor are after Transposes and Reshapes that split none.

    Attributes:
        extents: Current extents of the axes.
        groups: For each axis of the current shape, the axes joined in it, in order.
    """

    extents: Shape
    groups: tuple[tuple[int, ...], ...]

    def transposed(self, perm: Sequence[int]) -> Layout:
        """The layout after a Transpose."""
        return replace(self, groups=tuple(self.groups[axis] for axis in perm))

    def reshaped(self, dims: Shape) -> Layout | None:
        """The layout after a Reshape; None if it splits an axis."""
        rest = [axis for group in self.groups for axis in group]
        groups = []
        for dim in dims:
            group: list[int] = []
            while dim != 1 and (not group or product(self.extents[axis] for axis in group) != dim):
                if not rest:
                    return None
                group.append(rest.pop(0))
            groups.append(tuple(group))
        return None if rest else replace(self, groups=tuple(groups))

    def expanded(self, dims: Shape) -> Layout | None:
        """The layout after an Expand, whose repetitions are new axes; None if its shape is not
        known."""
        groups = [()] * (len(dims) - len(self.groups)) + list(self.groups)
        extents = list(self.extents)
        for place, dim in enumerate(dims):
            if not groups[place] and dim != 1:
                groups[place] = (len(extents),)
                extents.append(dim)
            elif product(extents[axis] for axis in groups[place]) != dim:
                return None
        return Layout(tuple(extents), tuple(groups))

    def resampled(self, axis: int, after: int) -> Layout:
        """The layout when an axis of the operand has another extent."""
        return replace(self, extents=(*self.extents[:axis], after, *self.extents[axis + 1 :]))


def is_move(node: oir.Node) -> bool:
    """Whether a node only reorders or reshapes elements."""
    return not node.domain and (node.op_type == "Transpose" or node.op_type in RESHAPES)


def layout_of(x: oir.Value) -> Layout:
    """The layout of a tensor by itself."""
    dims = shape_of(x)
    return Layout(dims, tuple(() if dim == 1 else (axis,) for axis, dim in enumerate(dims)))


def parts_of(dims: Shape, others: Shape) -> Layout | None:
    """The axes that two shapes of one tensor join, by themselves; None if they share no parts."""
    parts: list[Dim] = []
    rest = [dim for dim in others if dim != 1]
    for dim in dims:
        while dim != 1:
            if not rest:
                return None
            other = rest.pop(0)
            part = dim if _divides(dim, other) else other
            if not _divides(part, dim):
                return None
            parts.append(part)
            rest = [*([] if other == part else [quotient(other, part)]), *rest]
            dim = quotient(dim, part)
    return None if rest else Layout(tuple(parts), tuple((axis,) for axis in range(len(parts))))


def _divides(part: Dim, dim: Dim) -> bool:
    if isinstance(part, int) and isinstance(dim, int):
        return dim % part == 0
    return bool((expression(dim) / expression(part)).as_numer_denom()[1] == 1)


def moved(layout: Layout, node: oir.Node) -> Layout | None:
    """The layout after a Transpose or a Reshape; None if it splits an axis."""
    if node.op_type == "Transpose":
        return layout.transposed(node.attributes["perm"].as_ints())
    return layout.reshaped(shape_of(node.outputs[0]))


def laid_out(y: oir.Value, layout: Layout, dims: Shape, b: Rewriter) -> oir.Value:
    """The resampled operand, brought into a layout and shape."""
    ones = [axis for axis, dim in enumerate(shape_of(y)) if dim == 1]
    spare = iter(ones)
    perm: list[int] = []
    for group in layout.groups:
        one = next(spare, None) if not group else None
        perm += group if one is None else [one]
    perm += spare
    turned = b.transpose(y, perm)
    need(b.reshapes_at_once(turned, dims), "its shape is computed at run time", y)
    return b.reshape(turned, dims)


def repeated(x: oir.Value, chain: Sequence[oir.Node]) -> Layout | None:
    """The layout of x with axes that repeat each element; None if the chain does more."""
    layout: Layout | None = layout_of(x)
    rank = rank_of(x)
    for node in chain:
        assert layout is not None
        expands = node.op_type == "Expand"
        shape = shape_of(node.outputs[0])
        layout = layout.expanded(shape) if expands else moved(layout, node)
        if layout is None:
            return None
    assert layout is not None
    extents = list(layout.extents[:rank])
    for group in layout.groups:
        for before, axis in zip((rank, *group), group, strict=False):
            if axis >= rank:
                if before >= rank:
                    return None
                extents[before] = product([extents[before], layout.extents[axis]])
    groups = tuple(tuple(axis for axis in group if axis < rank) for group in layout.groups)
    return Layout(tuple(extents), groups)


def splits(old: Shape, new: Shape) -> list[list[int]]:
    """For each axis of a shape, the axes of the other shape that it is split into.

    Raises:
        Refusal: Axes are joined.
    """
    groups: list[list[int]] = []
    axis = 0
    for dim in old:
        group: list[int] = []
        extent: Dim = 1
        while axis < len(new) and (extent != dim or not group):
            group.append(axis)
            extent = product([extent, new[axis]])
            axis += 1
        need(extent == dim and group, "it joins axes")
        groups.append(group)
    if axis != len(new):
        raise Refusal("it adds axes at the end")
    return groups
