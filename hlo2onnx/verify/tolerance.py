"""The tolerance of each element type, and what says little because it varies by less.

`compare` allows more where XLA's own error is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from hlo2onnx.verify.element_kinds import in_f64, is_integer


@dataclass(frozen=True)
class Tolerance:
    """|result - truth| <= absolute * scale + relative * |truth| + fixed.

    Attributes:
        relative: Error relative to each element.
        absolute: Error relative to the largest finite magnitude of the output (its scale).
        fixed: Constant error.
    """

    relative: float
    absolute: float
    fixed: float = 0.0

    def with_given(self, rtol: float | None, atol: float | None) -> Tolerance:
        """The tolerance with the user's numbers, if they are given."""
        relative = self.relative if rtol is None else float(rtol)
        if atol is None:
            return Tolerance(relative, self.absolute)
        return Tolerance(relative, 0.0, float(atol))

    def largest(self, scale: float) -> float:
        """The tolerance of an element of this magnitude, which is the largest one."""
        return (self.absolute + self.relative) * scale + self.fixed


TOLERANCES: dict[str, Tolerance] = {
    "float64": Tolerance(1e-13, 1e-14),
    "float32": Tolerance(2e-6, 1e-6),
    # Half-precision results are one rounding of an f32 computation: 2 ULP.
    "float16": Tolerance(2e-3, 1e-3),
    "bfloat16": Tolerance(1.6e-2, 8e-3),
}
"""By name. Narrower floats may differ by one unit in the last place, and half of it. Other types
(integers, bool) must be equal."""


def tolerance_of(dtype: np.dtype) -> Tolerance | None:
    """The tolerance of an element type; None if elements must be equal. Complex types have that of
    their parts."""
    if dtype.kind == "c":
        return TOLERANCES[np.finfo(dtype).dtype.name]
    if dtype.name in TOLERANCES or dtype.kind == "b" or is_integer(dtype):
        return TOLERANCES.get(dtype.name)
    unit = float(ml_dtypes.finfo(dtype).eps)
    return Tolerance(unit, unit / 2)


# -- outputs that are nearly constant --------------------------------------------------------------

FINE, COARSE = 100, 4
"""The least spread of an output, in tolerances: for f32, f64 and complex, and for narrower floats.
Below it, an error of 1 % (25 %) of the spread is within the tolerance."""
_FINE_RELATIVE = 1e-4
"""Types with a smaller relative tolerance are fine."""


def weakness(trials: Sequence[np.ndarray], tolerance: Tolerance | None) -> str:
    """Why comparisons with these results say little; "" if they do not.

    Args:
        trials: XLA's results for one output.
        tolerance: The tolerance of the element type; None if elements must be equal.
    """
    arrays = [in_f64(array) for array in trials if array.size]
    if not arrays:
        return ""
    finite = [array[np.isfinite(array)] for array in arrays]
    if not any(array.size for array in finite):
        return "all elements are NaN or infinite"
    if len(arrays) == 1 and trials[0].size == 1:
        return ""
    variation = max(_within(finite), _between(arrays))
    if variation == 0:
        return "all elements are equal"
    if tolerance is None:
        return ""
    scale = max(float(np.abs(array).max(initial=0)) for array in finite)
    limit = tolerance.largest(scale)
    least = FINE if tolerance.relative < _FINE_RELATIVE else COARSE
    if variation < least * limit:
        return f"nearly constant: spread {variation:.1e}, tolerance {limit:.1e}"
    return ""


def _within(arrays: Sequence[np.ndarray]) -> float:
    """The largest difference of elements of one trial."""
    return max((float(array.max() - array.min()) for array in arrays if array.size), default=0.0)


def _between(arrays: Sequence[np.ndarray]) -> float:
    """The largest difference of an element between a trial and the first one."""
    found = 0.0
    for array in arrays[1:]:
        if array.shape == arrays[0].shape:
            with np.errstate(all="ignore"):
                difference = np.abs(array - arrays[0])
            found = max(found, float(np.max(difference, where=np.isfinite(difference), initial=0)))
    return found
