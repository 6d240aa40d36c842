"""How far XLA's own results move if the program rounds otherwise.

Some programs amplify rounding errors. Then two correct programs differ by more than any tolerance
of the result. A result is right if it is as near as those for inputs that differ in the last place,
and of programs whose inexact ops round otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from hlo2onnx.errors import OverBudgetError, VerificationError
from hlo2onnx.verify.element_kinds import in_f64, is_float
from hlo2onnx.verify.inputs import private_generator

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
_NOTICEABLE = 1e-3
"""Least movement of the median element, relative to the largest, of an output that moves as a
whole."""
_UNITS = 8
"""Changes of inputs in units in the last place: programs round many times."""

Run = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Runs a program in XLA."""


@dataclass(frozen=True)
class Slack:
    """The differences from XLA's result that are accepted in an output.

    Attributes:
        limit: The limit of each element; pairs for a complex one.
        most: The limit of a few elements, which the runs may have missed by chance.
        count: Limit of their count.
    """

    limit: np.ndarray
    most: float = 0.0
    count: int = 0

    def accepts(self, good: np.ndarray, difference: np.ndarray) -> np.ndarray:
        """Which elements are right.

        Args:
            good: Those that are right for other reasons.
            difference: The differences; NaN where one side is not finite.
        """
        found = good | (difference <= self.limit)
        few = ~found & (difference <= self.most)
        return found | few if few.sum() <= self.count else found


class _Movement:
    """The distances of runs from XLA's result, in one output."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._largest, self._second = np.zeros(shape), np.zeros(shape)
        self._run_of_largest = np.zeros(shape, np.int32)

    def add(self, distance: np.ndarray, run: int) -> None:
        is_larger = distance > self._largest
        self._second = np.maximum(self._second, np.minimum(distance, self._largest))
        self._largest = np.maximum(self._largest, distance)
        self._run_of_largest[is_larger] = run

    def slack(self) -> Slack:
        """The accepted differences.

        A run may miss an element by chance. Each run is therefore judged by the others, as the
        model's result is by all of them. The model may differ in as many elements as a run does.
        """
        if not self._largest.size:
            return Slack(self._largest)
        usual = TIMES_MEDIAN * np.median(self._largest)
        is_alone = self._largest > np.maximum(TIMES * self._second, usual)
        most = float(self._largest[is_alone].max(initial=0))
        if usual < _NOTICEABLE * most:  # a few elements jump, as integers do
            is_alone[...] = False
        count = int(np.bincount(self._run_of_largest[is_alone]).max(initial=0))
        return Slack(np.maximum(TIMES * self._largest, usual), most, count)


def movements(
    runs: Sequence[Run],
    arrays: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    moves: bool = True,
) -> Iterator[list[Slack]]:
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
    found = [_Movement(in_f64(array).shape) for array in expected]
    done, begin = 0, time.monotonic()
    for count in (RUNS, MORE_RUNS) if has_floats else (len(runs),):
        for turn in range(done, count):
            try:
                changed = [_changed(array, rng) for array in arrays] if has_floats else arrays
                moved = runs[turn % len(runs)](changed)
            except OverBudgetError:
                yield [movement.slack() for movement in found]
                if has_floats:  # a loop may end on the inputs themselves only
                    yield from movements(runs, arrays, expected, moves=False)
                return
            except VerificationError:
                return
            for movement, distance in zip(found, _distances(moved, expected), strict=True):
                movement.add(distance, turn)
        if count:
            yield [movement.slack() for movement in found]
        done = count
        if time.monotonic() - begin > _SECONDS:
            return


def differences(
    runs: Sequence[Run], arrays: Sequence[np.ndarray], expected: Sequence[np.ndarray]
) -> list[Slack] | None:
    """How far the results of other programs are from XLA's, at each element of each output.

    None if there is no program, or XLA fails.
    """
    try:
        every = [_distances(run(arrays), expected) for run in runs]
    except VerificationError:
        return None
    # Floats that come from moved integers are rounded again.
    rounded = 1 + 1e-3
    return [Slack(np.maximum.reduce(each) * rounded) for each in zip(*every, strict=True)] or None


def _distances(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> list[np.ndarray]:
    """How far elements of outputs are from XLA's; 0 where one is not finite."""
    with np.errstate(all="ignore"):
        pairs = zip(found, expected, strict=True)
        return [np.nan_to_num(np.abs(in_f64(x) - in_f64(y)), posinf=0) for x, y in pairs]


def _is_inexact(array: np.ndarray) -> bool:
    return array.dtype.kind == "c" or is_float(array)


def _changed(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The array with each float changed by up to a few units in the last place."""
    if not _is_inexact(array):
        return array
    unit = float(ml_dtypes.finfo(array.dtype).eps)
    factor = 1 + unit * rng.integers(-_UNITS, _UNITS, array.shape, endpoint=True)
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    with np.errstate(all="ignore"):
        return (wide * factor).astype(array.dtype)
