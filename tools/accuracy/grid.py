"""Points of a domain at which functions are measured.

A grid holds three kinds of points: evenly spread ones; magnitudes that grow by a constant factor,
from the smallest number to the ends of the interval, of both signs if the interval has both; and
such steps away from special places (ends, zeros and poles), down to the neighbouring float. XLA
treats denormal numbers as zeros, so a grid holds none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Interval:
    """low <= x <= high, where the ends may be infinite: as far as the type goes.

    Attributes:
        special: Places to look at closely.
        least: The smallest magnitude; 0 for that of normal numbers.
        whole: Whether only whole numbers are in it.
    """

    low: float
    high: float
    special: tuple[float, ...] = ()
    least: float = 0.0
    whole: bool = False

    def __str__(self) -> str:
        if self.whole:
            return f"{self.low:g}, {self.low + 1:g} .. {self.high:g}"
        return f"{_shown(self.low)} .. {_shown(self.high)}"

    def points(self, dtype: np.dtype[Any], count: int) -> Array:
        """About `count` numbers of a type, ascending."""
        info = ml_dtypes.finfo(dtype)
        low, high = max(self.low, float(info.min)), min(self.high, float(info.max))
        if self.whole:
            return np.unique(np.linspace(low, high, count).round()).astype(dtype)
        least = max(self.least, float(info.smallest_normal) * 1.01)
        parts = [np.linspace(low / 2, high / 2, count // 3) * 2]
        for sign in (-1, 1):
            parts.append(sign * _growing(least, max(abs(low), abs(high)), count // 4))
        for place in (*self.special, low, high):
            parts.append(_around(place, dtype, count // 12))
        numbers = np.unique(np.concatenate(parts).astype(dtype))
        inside = (numbers >= low) & (numbers <= high)
        normal = (np.abs(numbers) >= least) | (numbers == 0)
        return numbers[inside & normal]


def _shown(end: float) -> str:
    if np.isinf(end):
        return "max" if end > 0 else "-max"
    return f"{end:g}"


def _growing(low: float, high: float, count: int) -> Array:
    if low >= high:
        return np.array([])
    return np.exp(np.linspace(np.log(low), np.log(high), count))


def _around(place: float, dtype: np.dtype[Any], count: int) -> Array:
    """The place, and steps away from it that grow from one unit in the last place."""
    unit = max(abs(place), 1e-3) * float(ml_dtypes.finfo(dtype).eps) / 2
    steps = _growing(unit, 0.5, count)
    return np.concatenate([[place], place - steps, place + steps])


def product(axes: Sequence[Interval], dtype: np.dtype[Any], count: int) -> tuple[Array, ...]:
    """All combinations of points of several intervals, about `count` in all."""
    each = max(2, round(count ** (1 / len(axes))))
    # A short axis (few whole numbers) leaves more room for the others.
    points = [axis.points(dtype, 3 * each) for axis in axes]
    rng = np.random.default_rng(0)
    total = int(np.prod([len(axis) for axis in points]))
    chosen = np.arange(total) if total <= count else rng.choice(total, count, replace=False)
    places = np.unravel_index(np.sort(chosen), [len(axis) for axis in points])
    return tuple(axis[place] for axis, place in zip(points, places, strict=True))
