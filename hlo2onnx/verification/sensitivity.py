"""How far XLA's own results move if the program rounds otherwise.

Some programs amplify rounding errors. Then two correct programs differ by more than any tolerance
of the result. A result is right if it is as near as those for inputs that differ in the last place,
and of programs whose inexact ops round otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import ml_dtypes
import numpy as np

from hlo2onnx.errors import OverBudgetError, VerificationError
from hlo2onnx.verification.element_kinds import in_f64, is_float
from hlo2onnx.verification.inputs import private_generator

RUNS = 8
"""Count of runs on changed inputs."""
MORE_RUNS = 40
"""The same, if the first ones do not explain a difference and are fast."""
_SECONDS = 2.0
"""Limit of the time of the first runs for this."""
TIMES = 4.0
"""Limit of a difference, relative to the largest that was found at the element."""
TIMES_MEDIAN = 2.0
"""The same, relative to the median of all elements: a change may miss an element by chance."""
_UNITS = 8
"""Changes of inputs in units in the last place: programs round many times."""

Run = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Runs a program in XLA."""


def movements(
    runs: Sequence[Run],
    arrays: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    moves: bool = True,
) -> Iterator[list[np.ndarray]]:
    """How far an element of each output may be from XLA's: after some runs, and after more.

    An integer moves only if a run comes to the other side of a threshold. Nothing is yielded if
    neither inputs nor roundings change, or if XLA fails.

    Args:
        runs: The program and its variants, which take turns. Without floats among the inputs, each
            variant runs once.
        arrays: The inputs.
        expected: XLA's results for them.
        moves: Whether the floats of the inputs change.
    """
    has_floats = moves and any(_is_inexact(array) for array in arrays)
    if not has_floats:
        runs = runs[1:]
    rng = private_generator(0)
    largest = [np.zeros(in_f64(array).shape) for array in expected]
    done, begin = 0, time.monotonic()
    for count in (RUNS, MORE_RUNS) if has_floats else (len(runs),):
        for turn in range(done, count):
            try:
                changed = [_changed(array, rng) for array in arrays] if has_floats else arrays
                moved = runs[turn % len(runs)](changed)
            except OverBudgetError:
                yield list(map(_limit, largest))
                if has_floats:  # a loop may end on the inputs themselves only
                    yield from movements(runs, arrays, expected, moves=False)
                return
            except VerificationError:
                return
            for place, (found, want) in enumerate(zip(moved, expected, strict=True)):
                with np.errstate(all="ignore"):
                    distance = np.abs(in_f64(found) - in_f64(want))
                largest[place] = np.maximum(largest[place], np.nan_to_num(distance, posinf=0))
        if count:
            yield list(map(_limit, largest))
        done = count
        if time.monotonic() - begin > _SECONDS:
            return


def _limit(largest: np.ndarray) -> np.ndarray:
    """The distances that are accepted."""
    if not largest.size:
        return largest
    found: np.ndarray = np.maximum(TIMES * largest, TIMES_MEDIAN * np.median(largest))
    return found


def _is_inexact(array: np.ndarray) -> bool:
    return array.dtype.kind == "c" or is_float(array)


def _changed(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The array with each float changed by up to a few units in the last place."""
    if not _is_inexact(array):
        return array
    part = {"complex64": np.float32, "complex128": np.float64}.get(array.dtype.name, array.dtype)
    unit = float(ml_dtypes.finfo(part).eps)
    factor = 1 + unit * rng.integers(-_UNITS, _UNITS, array.shape, endpoint=True)
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    with np.errstate(all="ignore"):
        return (wide * factor).astype(array.dtype)
