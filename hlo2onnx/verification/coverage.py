"""Which guards of a program the inputs of a verification have reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo2onnx.mlir.locations import OriginReader
from hlo2onnx.verification.instrument import Place

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
            text += f": not {'; '.join([*self.missed[:SHOWN], *rest])}"
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
        missed.append(f"{place.op} {place.what}" + (f" ({source})" if source else ""))
    return Coverage(
        sum(bool(is_reached) for _, is_reached in counted),
        len(counted),
        tuple(dict.fromkeys(missed)),
        unobserved,
    )
