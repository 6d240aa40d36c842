"""The search for a small program that still fails: delta debugging.

Each transformation is tried on all its sites, on halves, and so on down to single sites, until
nothing gets smaller. The order is fixed, so that the same program always ends in the same one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from jaxlib.mlir import ir

from hlo2onnx.reduction.draft import Case, Draft
from hlo2onnx.reduction.transformations import TRANSFORMATIONS, Site, Transformation

ROUNDS = 8


class Search:
    """A reduction in progress.

    Args:
        case: The program. It fails.
        fails: Whether another one fails in the same way.

    Attributes:
        case: The smallest failing program so far.
        steps: How often each transformation made it smaller.
        known: Whether programs fail in the same way, by their keys.
    """

    def __init__(self, case: Case, fails: Callable[[Case], bool]) -> None:
        self.case = case
        self.steps: Counter[str] = Counter()
        self.known = {case.key: True}
        self._fails = fails
        self._cleans = False

    def run(self) -> None:
        """Makes the program as small as possible."""
        # What nothing reads is removed after each step, if it is not the reason.
        changed = self._changed(Draft.clean)
        self._cleans = changed is not None and self._take("dead code", changed)
        for _ in range(ROUNDS):
            size = self.case.size
            for transformation in TRANSFORMATIONS:
                self._minimize(transformation)
            if self.case.size >= size:
                return

    def _minimize(self, transformation: Transformation) -> None:
        """Applies a transformation to as many sites as possible."""
        sites = transformation.sites(Draft.of(self.case))
        size = len(sites)
        while size:
            end = len(sites)
            while end > 0:
                if self._apply(transformation, sites[max(end - size, 0) : end]):
                    sites = transformation.sites(Draft.of(self.case))
                elif transformation.is_cut:
                    break
                end = min(end - size, len(sites))
            size //= 2

    def _apply(self, transformation: Transformation, sites: Sequence[Site]) -> bool:
        """Takes a changed program if it still fails and is another."""
        changed = self._changed(lambda draft: transformation.apply(draft, sites))
        if changed is None or changed.text == self.case.text:
            return False
        return self._take(transformation.name, changed)

    def _take(self, name: str, changed: Case) -> bool:
        if changed.key not in self.known:
            self.known[changed.key] = self._fails(changed)
        if not self.known[changed.key]:
            return False
        self.steps[name] += changed.text != self.case.text
        self.case = changed
        return True

    def _changed(self, change: Callable[[Draft], None]) -> Case | None:
        draft = Draft.of(self.case)
        try:
            change(draft)
            if self._cleans:
                draft.clean()
        except ir.MLIRError:  # the change does not fit this program
            return None
        return draft.case()
