"""The start indices of a gather, in the arrangement that a strategy wants."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.start_indices import (
    clamped,
    clamped_constant,
    constant_starts,
    row_index,
    starts_inside,
)
from dialect_handlers.stablehlo.gather.dimension_numbers import GatherDimensions
from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.values import Dim, rank_of, shape_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.shape_arithmetic import contents_of, holding


class Starts:
    """Where the slices start along the moving axes, clamped so that they lie inside.

    Args:
        value: The start indices as the program has them.
        vector: The axis of `value` that holds the index vector; its rank where it holds one
            index, not a vector.
    """

    def __init__(self, em: Emitter, n: GatherDimensions, value: oir.Value, vector: int) -> None:
        self._em = em
        self._n = n
        self._value = value
        self._vector = vector
        self.constant = self._known()

    def _known(self) -> np.ndarray | None:
        """The starts, of shape (*batch, moving axes), where they are known."""
        known = constant_starts(self._em, self._value)
        if known is None:
            return None
        has_vector = self._vector < known.ndim
        vectors = np.moveaxis(known, self._vector, -1) if has_vector else known[..., None]
        return clamped_constant(vectors[..., self._n.columns], self._n.limits)

    @property
    def extents(self) -> list[Dim] | None:
        """The starts of a single slice as extents, if they are known or follow from shapes."""
        if self.constant is not None:
            return list(self.constant.reshape(-1).tolist())
        if self._n.columns != tuple(range(self._width)):
            return None
        return starts_inside(self._value, self._n.limits)

    def scalars(self) -> oir.Value:
        """The starts along the one moving axis, of shape (*batch)."""
        if self.constant is not None:
            return self._em.const(self.constant[..., 0])
        column = self._one_column()
        if self._n.is_single and not rank_of(column):
            return row_index(self._em, column, *self._n.limits)
        return clamped(self._em, column, self._n.limits)

    def vectors(self) -> oir.Value:
        """The starts of shape (*batch, moving axes)."""
        if self.constant is not None:
            return self._em.const(self.constant)
        return clamped(self._em, self._columns(), self._n.limits)

    @property
    def _width(self) -> int:
        """Length of the index vector."""
        dims = shape_of(self._value)
        return fixed([dims[self._vector]])[0] if self._vector < len(dims) else 1

    def _one_column(self) -> oir.Value:
        if self._width == 1:
            known = contents_of(self._value)
            alone = self._em.reshape(self._value, self._n.batch)
            return alone if known is None else holding(alone, known.reshape(self._n.batch))
        (column,) = self._n.columns
        return self._em.Gather(self._value, self._em.i64(column), axis=self._vector)

    def _columns(self) -> oir.Value:
        em, columns = self._em, self._n.columns
        if self._width == 1:
            return em.reshape(self._value, [*self._n.batch, 1])
        picked = self._value
        if columns != tuple(range(self._width)):
            picked = em.Gather(picked, em.i64(columns), axis=self._vector)
        batch = [axis for axis in range(rank_of(picked)) if axis != self._vector]
        return em.transpose(picked, [*batch, self._vector])
