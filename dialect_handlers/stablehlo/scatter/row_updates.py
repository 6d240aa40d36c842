"""The updates of a scatter as rows of its operand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.dimension_numbers import Axis, Batch
from dialect_handlers.common.parts import each
from dialect_handlers.stablehlo.scatter.dimension_numbers import ScatterDimensions
from dialect_handlers.stablehlo.scatter.scatter_indices import Places
from hlo2onnx.ir.dims import fixed, product
from hlo2onnx.ir.values import Dim, dtype_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter


class RowUpdates:
    """The updates as whole rows: a row has the operand's axes after the last indexed one.

    Args:
        layout: The axes of the updates in the order in which their rows are counted.

    Attributes:
        count: How many rows the updates have.
        dims: Extents of the operand with its indexed axes joined to one.
    """

    def __init__(
        self, em: Emitter, n: ScatterDimensions, places: Places, layout: Sequence[Axis]
    ) -> None:
        self._em, self._n, self._places = em, n, places
        self._layout = [a for a in layout if isinstance(a, Batch) or a.axis < n.depth]
        self._row = list(n.dims[n.depth :])
        self.count: Dim = product(n.extents(self._layout))
        self.dims = [product(n.dims[: n.depth]), *self._row]

    @property
    def width(self) -> Dim:
        """Elements of a row."""
        return product(self._row)

    @property
    def has_columns(self) -> bool:
        """Whether `columns` applies: it takes fewer nodes than `index`, for few updates."""
        n, places = self._n, self._places
        computed = places.constant is None and not places.is_narrow
        return n.is_static and n.depth > 1 and n.scatters_rows_of_batches and computed

    def columns(self) -> oir.Value:
        """The target row of each row of the updates as an index along each of the operand's first
        axes, of shape (updates, axes)."""
        em, n, parts = self._em, self._n, list[oir.Value]()
        starts = em.reshape(self._places.rows, [self.count, len(n.partial)])
        counts = np.indices(fixed(n.batch)).reshape(len(n.batch), *fixed([self.count]), 1)
        for is_counted, group in groupby(range(n.depth), n.batching.__contains__):
            axes = list(group)
            if is_counted:
                columns = [counts[n.batching[axis]] for axis in axes]
                parts.append(em.const(np.concatenate(columns, 1), dtype_of(starts)))
            else:
                first = n.partial.index(axes[0])
                parts.append(em.slice(starts, [first], [first + len(axes)], axes=[1]))
        return parts[0] if len(parts) == 1 else em.concat(parts, 1)

    def index(self) -> oir.Value:
        """The target row of each row of the updates, of shape (updates, 1)."""
        index = self._places.index(self._layout, self._n.depth)
        return self._em.reshape(index, [self.count, 1])

    def spread(self, valid: oir.Value) -> oir.Value:
        """Which rows of the updates count, of shape (updates).

        Args:
            valid: Which windows count.
        """
        extents = self._n.extents(self._layout)
        spread = self._em.expand(self._places.spread(valid, self._layout), extents)
        return self._em.reshape(spread, [self.count])

    def beyond(self) -> oir.Value:
        """`index` with -1 or the number of rows for updates that do not count.

        Only if the index of a row is the start of one axis.
        """
        return self._em.reshape(self._places.beyond, [self.count, 1])

    def of(self, updates: Sequence[Parts]) -> list[Parts]:
        """These updates as rows, of shape (updates, ...)."""
        em, n = self._em, self._n
        behind = [axis for axis in n.windows if axis not in self._layout]
        behind.sort(key=n.runs_along)
        order = [n.windows.index(axis) for axis in [*self._layout, *behind]]
        return each(lambda x: em.reshape(em.transpose(x, order), [self.count, *self._row]), updates)
