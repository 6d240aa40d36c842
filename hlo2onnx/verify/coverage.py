"""Which guards of a program the inputs of a verification have reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo2onnx.frontend.mlir.locations import OriginReader
from hlo2onnx.verify.instrument import Place

_PHRASES = {
    "above the bound": "a value above its constant",
    "above the integers": "a float above the integers",
    "above the range": "a value above the range",
    "below the bound": "a value below its constant",
    "below the integers": "a float below the integers",
    "below the range": "a value below the range",
    "false": "a false condition",
    "index above its limit": "an index above its limit",
    "index below 0": "an index below 0",
    "not taken": "a false condition",
    "taken": "a true condition",
    "not finite": "a value that is not finite",
    "shift of all bits": "a shift of all bits",
    "true": "a true condition",
}
"""Sides, as the end of a sentence."""
SHOWN = 6
"""Limit of the sides in the text."""


@dataclass(frozen=True)
class Coverage:
    """The sides of guards that some inputs have reached.

    A guard is an op that treats some values in another way: a branch, a clamp, an index out of
    range, a division by 0. Each of its sides counts.

    Attributes:
        reached: Count of the sides that were reached.
        total: Count of all sides.
        missed: The others: op, side and source line.
        unobserved: Count of guards that cannot be observed, such as those in the comparator of a
            sort.
    """

    reached: int
    total: int
    missed: tuple[str, ...] = ()
    unobserved: int = 0

    def __str__(self) -> str:
        text = f"guards reached {self.reached} of {self.total}"
        if self.missed:
            more = len(self.missed) - SHOWN
            rest = [f"{more} more"] if more > 0 else []
            text += f". No sample reaches {'; '.join([*self.missed[:SHOWN], *rest])}"
        if self.unobserved:
            text += f" ({self.unobserved} in regions are not observed)"
        return text


def coverage_of(places: Sequence[Place], reached: np.ndarray, unobserved: int) -> Coverage:
    """The coverage of all runs.

    Args:
        places: The sides.
        reached: Whether a run has reached each.
        unobserved: Count of guards that are not observed.
    """
    read = OriginReader()
    counted = [pair for pair in zip(places, reached, strict=True) if pair[0].is_counted]
    missed = []
    for place in (place for place, is_reached in counted if not is_reached):
        sources = (read(location).source for location in place.locations)
        source = next(filter(None, sources), "")
        case = f"{place.op} with {_PHRASES.get(place.what, place.what)}"
        missed.append(case + (f" ({source})" if source else ""))
    return Coverage(
        sum(bool(is_reached) for _, is_reached in counted),
        len(counted),
        tuple(dict.fromkeys(missed)),
        unobserved,
    )
