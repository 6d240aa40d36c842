"""The search for a small program that still fails: delta debugging.

First the program is cut: bisection finds a short prefix of `main` that fails, and then a short
suffix of this prefix. Then each transformation is tried on all its sites, on halves, and so on down
to single sites. Both are repeated until nothing gets smaller. The order is fixed, so that the same
program always ends in the same one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.functions import large_constants_as_arguments
from hlo2onnx.frontend.mlir.values import MlirValue, is_used, operations_in
from hlo2onnx.reduction.case import Case
from hlo2onnx.reduction.draft import Draft
from hlo2onnx.reduction.transformations import (
    RESULTS,
    TRANSFORMATIONS,
    Site,
    Transformation,
    ops_in_main,
    replace_by_arguments,
)
from hlo2onnx.reduction.whole import INLINING, WHOLE, remove_dead, return_dead

Fails = Callable[[Case], bool]
"""Whether a program fails in the same way."""

Capture = Callable[[Case], Sequence[np.ndarray] | None]
"""The results of a program in XLA."""

Change = Callable[[Draft], None]

ROUNDS = 8


class Search:
    """A reduction in progress.

    Args:
        case: The program. It fails.
        fails: Whether another one fails in the same way.
        capture: Computes values that become inputs; None if inputs cannot be given.

    Attributes:
        case: The smallest failing program so far.
        before: Count of ops of the whole program.
        steps: How often each transformation made it smaller.
    """

    def __init__(self, case: Case, fails: Fails, capture: Capture | None) -> None:
        self.case = case
        self.before = case.ops
        self.steps: Counter[str] = Counter()
        self._is_failing = fails
        self._empty_passes = False
        self._capture = capture
        self._cleans = False

    def run(self) -> None:
        """Makes the program as small as possible."""
        self._keep_dead_code()
        if not self._try("weights made arguments", partial(_free_weights, keeps=False)):
            self._try("weights made arguments", partial(_free_weights, keeps=True))
        for _ in range(ROUNDS):
            size = self.case.size
            self._minimize(RESULTS)
            self._cut()
            for name, change in WHOLE.items():
                if self._try(name, change) and name == INLINING:
                    self._minimize(RESULTS)
                    self._cut()
            for transformation in TRANSFORMATIONS:
                self._minimize(transformation)
            if self.case.size >= size and not self._use_values():
                return

    def _fails(self, case: Case) -> bool:
        """Whether a program fails. One without ops is tested until it does not."""
        if not case.ops and self._empty_passes:
            return False
        failing = self._is_failing(case)
        self._empty_passes = self._empty_passes or not (case.ops or failing)
        return failing

    def _keep_dead_code(self) -> None:
        """Removes dead code after each step from now on, if it is not the reason."""
        self._cleans = self._try("dead code removed", remove_dead) or not self._has_dead_code()
        if not self._cleans:
            self._cleans = self._try("unread values returned", return_dead)

    def _has_dead_code(self) -> bool:
        draft = Draft.of(self.case)
        draft.clean()
        changed = draft.case()
        return changed is not None and changed.ops < self.case.ops

    def _use_values(self) -> bool:
        """Makes arguments of ops that fail only with the values that XLA computes for them."""
        before = self.case
        if self._capture is not None:
            position = len(ops_in_main(Draft.of(self.case)))
            while position > 0:
                position -= 1
                sites = ops_in_main(Draft.of(self.case))
                if position < len(sites):
                    self._use_value(sites[position])
        return self.case is not before

    def _use_value(self, site: Site) -> None:
        arrays = self._values(
            Draft.of(self.case),
            lambda draft: [each for each in draft.ops[site.number].results if is_used(each)],
        )
        if arrays is not None:
            self._try(
                "ops replaced by arguments with XLA's values",
                lambda draft: replace_by_arguments(draft, site, arrays),
            )

    # -- one step ---------------------------------------------------------------------------------

    def _try(self, name: str, change: Change) -> bool:
        """Takes a changed program if it still fails."""
        changed = self._changed(Draft.of(self.case), change)
        if changed is None or changed.text == self.case.text or not self._fails(changed):
            return False
        self.case = changed
        self.steps[name] += 1
        return True

    def _changed(self, draft: Draft, change: Change) -> Case | None:
        try:
            change(draft)
            if self._cleans:
                draft.clean()
        except ir.MLIRError:  # the change does not fit this program
            return None
        return draft.case()

    # -- cuts -------------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Makes `main` a short part of itself."""
        whole = Draft.of(self.case)
        count = len(operations_in(whole.block)) - 1
        shortest = self._bisect("cut after a value", 1, count - 1, _prefix)
        if shortest is not None:
            count = len(operations_in(Draft.of(self.case).block)) - 1
        self._bisect("cut before a value", count - 1, 1, self._suffix)

    def _bisect(
        self, name: str, best: int, worst: int, cut: Callable[[Draft, int], Iterator[Change]]
    ) -> int | None:
        """Takes the best of the cuts that fail, if a worse cut of a failing one fails as well.

        Args:
            best, worst: Positions of the cuts that keep the fewest and the most ops.
            cut: The changes to try at a position.
        """
        start, found = self.case, None
        step = 1 if best <= worst else -1
        low, high = 0, (worst - best) * step
        while low <= high:
            middle = (low + high) // 2
            changed = self._first_failing(start, cut(Draft.of(start), best + step * middle))
            if changed is not None and changed.text != start.text:
                found, self.case, high = best + step * middle, changed, middle - 1
            else:
                low = middle + 1
        if found is not None:
            self.steps[name] += 1
        return found

    def _first_failing(self, start: Case, changes: Iterator[Change]) -> Case | None:
        for change in changes:
            changed = self._changed(Draft.of(start), change)
            if changed is not None and self._fails(changed):
                return changed
        return None

    def _suffix(self, draft: Draft, position: int) -> Iterator[Change]:
        """Makes arguments of what the first ops compute: random ones, or of captured values."""
        wanted = _read_after(draft, position)
        if not wanted:
            return

        def cut(changed: Draft, arrays: Sequence[np.ndarray | None]) -> None:
            values = _read_after(changed, position)
            for value, array in zip(values, arrays, strict=True):
                value.replace_all_uses_with(changed.add_argument(value.type, array))

        yield partial(cut, arrays=[None] * len(wanted))
        arrays = self._values(draft, lambda copy: _read_after(copy, position))
        if arrays is not None:
            yield partial(cut, arrays=arrays)

    def _values(
        self, draft: Draft, wanted: Callable[[Draft], list[MlirValue]]
    ) -> list[np.ndarray] | None:
        """What XLA computes for some values; None if it does not compute them."""
        if self._capture is None:
            return None
        copy = draft.copy()
        values = wanted(copy)
        copy.return_values(values)
        copy.clean()
        case = copy.case()
        found = None if case is None else self._capture(case)
        return None if found is None or len(found) != len(values) else list(found)

    # -- many sites -------------------------------------------------------------------------------

    def _minimize(self, transformation: Transformation) -> None:
        """Applies a transformation to as many sites as possible."""
        sites = transformation.sites(Draft.of(self.case))
        size = len(sites)
        while size:
            end = len(sites)
            while end > 0:
                if self._apply(transformation, sites[max(end - size, 0) : end]):
                    sites = transformation.sites(Draft.of(self.case))
                end = min(end - size, len(sites))
            size //= 2

    def _apply(self, transformation: Transformation, sites: Sequence[Site]) -> bool:
        def change(draft: Draft) -> None:
            for site in reversed(_compatible(transformation, sites)):
                transformation.apply(draft, site)

        return self._try(transformation.name, change)


def _compatible(transformation: Transformation, sites: Sequence[Site]) -> list[Site]:
    """The sites that can be applied together."""
    if transformation.all_choices:
        return list(sites)
    return list({site.number: site for site in reversed(sites)}.values())[::-1]


def _free_weights(draft: Draft, keeps: bool) -> None:
    """Makes arguments of large constants, with or without their numbers."""
    arrays = large_constants_as_arguments(draft.main)
    draft.inputs += arrays if keeps else [None] * len(arrays)


def _prefix(draft: Draft, position: int) -> Iterator[Change]:
    """Makes `main` end after some ops: it returns what the others read."""
    if _read_after(draft, position):
        yield lambda changed: changed.return_values(_read_after(changed, position))


def _read_after(draft: Draft, position: int) -> list[MlirValue]:
    """The values of the first ops of `main` that the others read, in order."""
    operations = operations_in(draft.block)
    values = [value for op in operations[:position] for value in op.results]
    later: set[MlirValue] = set()

    def note(operation: ir.Operation) -> ir.WalkResult:
        later.update(operation.operands)
        return ir.WalkResult.ADVANCE

    for operation in operations[position:]:
        operation.walk(note)
    return [value for value in values if value in later]
