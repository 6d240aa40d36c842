"""The one place that makes ONNX nodes and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import fixed, is_static
from hlo2onnx.ir.extents import Extents
from hlo2onnx.ir.nodes import NodeBuilder
from hlo2onnx.ir.shapes import INT64_MAX, added_units, reshape_target, sliced_extent
from hlo2onnx.ir.values import Dim, dtype_of, rank_of, shape_of

DFT_AXIS_OPSET = 20
"""The first opset in which the axis of DFT is an input."""


class GraphBuilder(NodeBuilder):
    """Makes nodes, and skips those without effect.

    Attributes:
        extents: Makes vectors of extents, symbolic ones at run time.
    """

    def __init__(self, graph: oir.Graph, opset: int) -> None:
        super().__init__(graph, opset)
        self.extents = Extents(self)

    def cast(self, x: oir.Value, dtype: oir.DataType) -> oir.Value:
        """Cast, or x itself when it has that type; f8 targets do not saturate, and round to the
        nearest (as in XLA)."""
        if dtype_of(x) == dtype:
            return x
        if dtype == oir.DataType.FLOAT8E8M0:
            return self.op("Cast", x, to=dtype, saturate=0, round_mode="nearest")
        saturate = 0 if dtype.name.startswith(("FLOAT8E4", "FLOAT8E5")) else None
        return self.op("Cast", x, to=dtype, saturate=saturate)

    def reshape(self, x: oir.Value, dims: Sequence[Dim]) -> oir.Value:
        """Reshape to these extents, or x itself when it has them."""
        if shape_of(x) == tuple(dims):
            return x
        if is_static(dims):
            allowzero = 1 if 0 in dims else None
            return self.op("Reshape", x, self.i64(fixed(dims)), allowzero=allowzero)
        types = [(dtype_of(x), tuple(dims))]
        target = reshape_target(shape_of(x), dims)
        if target is not None:
            return self.op("Reshape", x, self.i64(target), types=types)
        if (added := added_units(shape_of(x), dims)) is not None:
            return self.unsqueeze(x, added)
        if (dropped := added_units(dims, shape_of(x))) is not None:
            return self.squeeze(x, dropped)
        return self.op("Reshape", x, self.extents.vector(dims), allowzero=1, types=types)

    def reshapes_at_once(self, x: oir.Value, dims: Sequence[Dim]) -> bool:
        """Whether x can get these extents in one node, without computing any at run time."""
        have = shape_of(x)
        return (
            is_static(dims)
            or reshape_target(have, dims) is not None
            or added_units(have, dims) is not None
            or added_units(dims, have) is not None
        )

    def transpose(self, x: oir.Value, perm: Sequence[int]) -> oir.Value:
        """Transpose, or x itself when the permutation is the identity."""
        if list(perm) == list(range(len(perm))):
            return x
        return self.op("Transpose", x, perm=tuple(perm))

    def expand(self, x: oir.Value, dims: Sequence[Dim]) -> oir.Value:
        """Expand to these extents (numpy broadcasting), or x itself when it has them.

        To an empty shape it is a constant, because ONNX Runtime drops an Expand from 1 to 0.
        """
        if shape_of(x) == tuple(dims):
            return x
        if is_static(dims):
            if 0 in dims:
                return self.const(np.zeros(fixed(dims), dtype_of(x).numpy()))
            return self.op("Expand", x, self.i64(fixed(dims)))
        aligned = (1,) * (len(dims) - rank_of(x)) + shape_of(x)
        # 1 keeps the extent of x. With a 0 in the shape, all extents are given: the runtime drops
        # an Expand to a constant empty shape.
        wanted = [
            1 if have == want and 0 not in dims else want
            for have, want in zip(aligned, dims, strict=True)
        ]
        shape = self.extents.vector(wanted)
        return self.op("Expand", x, shape, types=[(dtype_of(x), tuple(dims))])

    def unsqueeze(self, x: oir.Value, axes: Sequence[int]) -> oir.Value:
        """Inserts axes of extent 1 at these positions of the result."""
        return self.op("Unsqueeze", x, self.i64(list(axes))) if axes else x

    def squeeze(self, x: oir.Value, axes: Sequence[int]) -> oir.Value:
        """Removes these axes of extent 1."""
        return self.op("Squeeze", x, self.i64(list(axes))) if axes else x

    def slice(
        self,
        x: oir.Value,
        starts: Sequence[Dim],
        limits: Sequence[Dim],
        steps: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
    ) -> oir.Value:
        """x[starts:limits:steps] along `axes` (all by default); axes kept whole are left out.

        A limit of `INT64_MIN` with a negative step means "past the first element". Symbolic
        starts and limits, and those along a symbolic axis, must lie inside, in this order.
        """
        axes = range(rank_of(x)) if axes is None else axes
        steps = [1] * len(axes) if steps is None else steps
        rows = [
            row
            for row in zip(starts, limits, steps, axes, strict=True)
            if not (row[0] == 0 and row[2] == 1 and row[1] == shape_of(x)[row[3]])
        ]
        if not rows:
            return x
        start, limit, step, axis = (list(column) for column in zip(*rows, strict=True))
        dims = list(shape_of(x))
        for row in rows:
            dims[row[3]] = sliced_extent(dims[row[3]], *row[:3])
        # A limit greater than any extent means the end of the axis.
        ends = [
            INT64_MAX if last == shape_of(x)[place] and not isinstance(last, int) else last
            for last, place in zip(limit, axis, strict=True)
        ]
        inputs = [self.extents.vector(start), self.extents.vector(ends), self.i64(axis)]
        if any(item != 1 for item in step):
            inputs.append(self.i64(step))
        return self.op("Slice", x, *inputs, types=[(dtype_of(x), tuple(dims))])

    def axes_beside(self, starts: oir.Value | None, axes: Sequence[int]) -> oir.Value:
        """Axes of a Slice, in the element type of its starts, which must be the same."""
        if starts is None or dtype_of(starts) == oir.DataType.INT64:
            return self.i64(list(axes))
        return self.const(np.array(axes, dtype_of(starts).numpy()))

    def concat(self, parts: Sequence[oir.Value], axis: int) -> oir.Value:
        """Concat along `axis`, or the part itself when there is only one."""
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=axis)

    def dft(
        self,
        x: oir.Value,
        axis: int,
        length: int | None = None,
        *,
        inverse: bool = False,
        onesided: bool = False,
    ) -> oir.Value:
        """DFT of `length` points along an axis, which is an attribute before opset 20; the last
        axis holds real and imaginary parts."""
        points = None if length is None else self.i64(length)
        flags: dict[str, Any] = {"inverse": inverse or None, "onesided": onesided or None}
        if self.opset < DFT_AXIS_OPSET:
            return self.op("DFT", x, points, axis=axis, **flags)
        return self.op("DFT", x, points, self.i64(axis), **flags)
