"""Windows combined by a region without a name: element by element, in XLA's order.

The specification leaves the order open and so admits associative regions only. XLA starts with the
init values and takes a window's elements in row-major order. This gives other regions a meaning
too, and NaN a result in regions that compare and select (the JVP of max pooling).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import onnx_ir as oir

from dialect_handlers.common.parts import each
from dialect_handlers.common.reductions import Function, combine
from dialect_handlers.common.subgraphs import repeat
from dialect_handlers.common.windows import WindowAxis, Windows, is_everywhere
from dialect_handlers.stablehlo.reduce_window.cumulative import doubling_scan
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

LONGEST_FOLD = 16
"""Elements of the largest cumulative window that is not taken to be associative: a limit on the
number of nodes, no cost."""

LONGEST_UNROLLED = 64
"""Elements of the largest window without a Loop: a limit on the number of nodes, no cost."""


class Fold:
    """The windows of one op.

    Args:
        function: The region over whole tensors.
        axes: Each static one has a position that holds an element.
    """

    def __init__(self, em: Emitter, function: Function, axes: Sequence[WindowAxis]) -> None:
        self.em = em
        self.function = function
        self.windows = Windows(em, axes)

    def __call__(self, inits: Sequence[Parts], tensors: Sequence[Parts]) -> list[Parts]:
        """region(...region(region(init, first), second)..., last) of every window.

        Raises:
            UnsupportedOp: The size of a window is symbolic, and it is not cumulative.
        """
        windows = self.windows
        size = windows.size
        if len(windows.axes) == 1 and not (isinstance(size, int) and size <= LONGEST_FOLD):
            ((number, axis),) = windows.axes.items()
            if axis.prefix is not None and not axis.prefix.exclusive:
                return self._scanned(inits, tensors, number, axis.prefix.reverse)
        if not isinstance(size, int):
            raise UnsupportedOp(
                "the region is not a known reduction, and the size of the window is symbolic",
                "lower the function with static windows",
            )
        held = each(windows.laid_out, tensors)
        if size <= LONGEST_UNROLLED:
            return each(self._expanded, self._unrolled(inits, held))
        return self._looped(each(self._expanded, inits), held, size)

    def _expanded(self, x: oir.Value) -> oir.Value:
        return self.em.expand(x, self.windows.counts)

    def _combine(self, lhs: Sequence[Parts], rhs: Sequence[Parts]) -> list[Parts]:
        return combine(self.em, self.function, lhs, rhs)

    def _scanned(
        self, inits: Sequence[Parts], tensors: Sequence[Parts], number: int, reverse: bool
    ) -> list[Parts]:
        """Long cumulative windows, of a region taken to be associative: log2(n) steps, not n²."""
        scanned = doubling_scan(self.em, self._combine, tensors, number, reverse=reverse)
        return self._combine(inits, scanned)

    def _unrolled(self, inits: Sequence[Parts], held: Sequence[Parts]) -> list[Parts]:
        """One application of the region for each element of a window."""
        windows, result = self.windows, list(inits)
        for place in windows.places():
            inside = windows.inside(place)
            if isinstance(inside, oir.Value) or inside.any():
                new = self._combine(result, each(partial(windows.element, place=place), held))
                mask = None if is_everywhere(inside) else windows.value_of(inside)
                result = self._where(mask, new, result)
        return result

    def _where(
        self, mask: oir.Value | None, new: Sequence[Parts], old: Sequence[Parts]
    ) -> list[Parts]:
        return list(new) if mask is None else each(partial(self.em.Where, mask), new, old)

    def _looped(self, inits: Sequence[Parts], held: Sequence[Parts], size: int) -> list[Parts]:
        """The same with one trip of a Loop for each element of a window."""
        windows = self.windows

        def step(trip: oir.Value, states: list[Parts]) -> list[Parts]:
            place = windows.place_of(trip)
            element = each(partial(windows.element_at, place=place), held)
            mask = None if valid is None else windows.element_at(valid, place)
            return self._where(mask, self._combine(states, element), states)

        valid = windows.valid
        return repeat(self.em, "windows", size, inits, step)
