"""A trial: inputs of a program, and XLA's results for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from hlo2onnx.verify.element_kinds import is_float


@dataclass(frozen=True)
class Inputs:
    """Inputs of a program.

    Attributes:
        arrays: One for each input of the program.
        kind: Their description for the user: "random inputs, seed 0".
        is_ordinary: Whether they are the user's own, or ordinary numbers. Others were made to reach
            special cases.
        sizes: The sizes of the dynamic dimensions: "b = 3, s = 4".
        column: The column of the table of samples that counts them.
    """

    arrays: Sequence[np.ndarray]
    kind: str = ""
    is_ordinary: bool = True
    sizes: str = ""
    column: str = ""


@dataclass(frozen=True)
class Trial:
    """Inputs and XLA's results for them.

    Attributes:
        inputs: The inputs.
        expected: XLA's results.
        meets_nan: Whether the run takes the maximum or minimum of NaN.
        converts_nan: Whether it converts NaN to an integer.
    """

    inputs: Inputs
    expected: Sequence[np.ndarray]
    meets_nan: bool = False
    converts_nan: bool = False

    @property
    def arrays(self) -> Sequence[np.ndarray]:
        """The inputs."""
        return self.inputs.arrays

    def overflows(self, wide: Sequence[np.ndarray] | None) -> bool:
        """Whether results are so large that their squares overflow, or infinite by overflow.

        Args:
            wide: The results of the program in f64, if known.
        """
        unknown: list[np.ndarray | None] = [None] * len(self.expected)
        found = unknown if wide is None else wide
        return any(map(_overflows, self.expected, found))

    @property
    def has_nan(self) -> bool:
        """Whether NaN is in the inputs or the results, in a maximum, or converted."""
        every = (*self.arrays, *self.expected)
        return self.meets_nan or self.converts_nan or any((x != x).any() for x in every)


def _overflows(array: np.ndarray, wide: np.ndarray | None) -> bool:
    if not is_float(array) or not array.size:
        return False
    largest = math.sqrt(float(ml_dtypes.finfo(array.dtype).max))
    size = np.abs(array.astype(np.float64))
    if (np.isfinite(size) & (size > largest)).any():
        return True
    return wide is not None and bool((np.isinf(size) & np.isfinite(wide)).any())
