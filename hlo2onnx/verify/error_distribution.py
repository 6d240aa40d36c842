"""How the errors of an output are distributed: a histogram by decade, and the worst elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WORST = 8
"""Elements that are listed."""
_LOWEST, _HIGHEST = -12, 1
"""Decades of the histogram. Smaller and larger errors are counted at its ends."""


@dataclass(frozen=True)
class Element:
    """One element of an output.

    Attributes:
        index: Its place.
        actual: ONNX Runtime's result as text.
        expected: XLA's result as text.
        error: The difference relative to the largest finite magnitude of XLA's output; infinite if
            one of the two is not finite.
    """

    index: tuple[int, ...]
    actual: str
    expected: str
    error: float


@dataclass(frozen=True)
class ErrorDistribution:
    """The errors of the elements of one output, relative to its largest finite magnitude.

    Attributes:
        counts: Labels of the bins, such as "0" and "1e-7", and their counts of elements. A bin has
            the errors from its label to the next one. "NaN/inf" counts elements that are not finite
            on one side, and differ.
        worst: The elements with the largest errors, the worst first.
    """

    counts: tuple[tuple[str, int], ...] = ()
    worst: tuple[Element, ...] = ()


def error_distribution(actual: np.ndarray, expected: np.ndarray) -> ErrorDistribution:
    """The distribution of the errors of one output. Both arrays have the same shape and type."""
    if actual.shape != expected.shape or not actual.size:
        return ErrorDistribution()
    got, want = _wide(actual), _wide(expected)
    finite = np.isfinite(got) & np.isfinite(want)
    with np.errstate(all="ignore"):
        errors = np.where(finite, np.abs(got - want), np.inf).astype(np.float64)
    errors[(got == want) | (np.isnan(got) & np.isnan(want))] = 0
    scale = float(np.max(np.abs(want), where=np.isfinite(want), initial=0))
    errors /= scale or 1.0
    count = min(WORST, int(np.count_nonzero(errors)))
    flat = errors.reshape(-1)
    places = np.argpartition(-flat, count - 1)[:count] if count else np.zeros(0, np.int64)
    places = places[np.argsort(-flat[places], kind="stable")]
    worst = []
    for place in places:
        index = tuple(map(int, np.unravel_index(place, actual.shape)))
        element = Element(index, str(actual[index]), str(expected[index]), float(flat[place]))
        worst.append(element)
    return ErrorDistribution(_histogram(flat), tuple(worst))


def _wide(array: np.ndarray) -> np.ndarray:
    """The elements in a type in which differences are exact enough."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    is_long = array.dtype.kind in "iu" and array.dtype.itemsize == 8
    return array.astype(np.longdouble if is_long else np.float64)


def _histogram(errors: np.ndarray) -> tuple[tuple[str, int], ...]:
    """Counts by decade, from the first to the last one that has an element."""
    nonfinite = int(np.isinf(errors).sum())
    positive = errors[(errors > 0) & np.isfinite(errors)]
    decades = np.clip(np.floor(np.log10(positive)), _LOWEST, _HIGHEST).astype(int)
    counts = np.bincount(decades - _LOWEST, minlength=_HIGHEST - _LOWEST + 1)
    bins = [("0", errors.size - positive.size - nonfinite)]
    used = np.flatnonzero(counts)
    if used.size:
        bins += [
            (f"1e{place + _LOWEST}", int(counts[place])) for place in range(used[0], used[-1] + 1)
        ]
    return (*bins, *([("NaN/inf", nonfinite)] if nonfinite else []))
