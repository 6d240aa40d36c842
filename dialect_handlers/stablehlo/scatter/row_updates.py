"""The updates of a scatter as rows of its operand."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from dialect_handlers.common.dimension_numbers import Axis, Batch, Window
from dialect_handlers.common.parts import each
from dialect_handlers.stablehlo.scatter.dimension_numbers import ScatterDimensions
from dialect_handlers.stablehlo.scatter.scatter_indices import Places
from hlo2onnx.ir.dims import product
from hlo2onnx.ir.values import Dim
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
        behind.sort(key=operand_axis)
        order = [n.windows.index(axis) for axis in [*self._layout, *behind]]
        return each(lambda x: em.reshape(em.transpose(x, order), [self.count, *self._row]), updates)


def operand_axis(axis: Axis) -> int:
    """The axis of the operand that an axis of the updates runs along; -1 for none."""
    return axis.axis if isinstance(axis, Window) else -1
