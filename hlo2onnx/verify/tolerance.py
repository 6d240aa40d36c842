"""The tolerance of each element type, and what says little because it varies by less.

`compare` allows more where XLA's own error is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo2onnx.verify.element_kinds import in_f64


@dataclass(frozen=True)
class Tolerance:
    """|result - truth| <= absolute * scale + relative * |truth| + fixed.

    Attributes:
        relative: Error relative to each element.
        absolute: Error relative to the largest finite magnitude of the output (its scale).
        fixed: Error that depends on nothing.
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
    "float8_e4m3fn": Tolerance(0.125, 0.0625),
    "float8_e4m3fnuz": Tolerance(0.125, 0.0625),
    "float8_e5m2": Tolerance(0.25, 0.125),
    "float8_e5m2fnuz": Tolerance(0.25, 0.125),
    "float8_e4m3": Tolerance(0.125, 0.0625),
    "float8_e4m3b11fnuz": Tolerance(0.125, 0.0625),
    "float8_e3m4": Tolerance(0.0625, 0.03125),
    "float8_e8m0fnu": Tolerance(1.0, 0.5),
    "float6_e2m3fn": Tolerance(0.125, 0.0625),
    "float6_e3m2fn": Tolerance(0.25, 0.125),
    "float4_e2m1fn": Tolerance(0.5, 0.25),
}
"""By name in numpy or ml_dtypes. Other types (integers, bool) must be equal."""


def tolerance_of(dtype: np.dtype) -> Tolerance | None:
    """The tolerance of an element type; None if elements must be equal. Complex types have that of
    their parts."""
    if dtype.kind == "c":
        return TOLERANCES["float32" if dtype.itemsize == 8 else "float64"]
    return TOLERANCES.get(dtype.name)


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
    """The largest difference of an element from itself in the first trial."""
    found = 0.0
    for array in arrays[1:]:
        if array.shape == arrays[0].shape:
            with np.errstate(all="ignore"):
                difference = np.abs(array - arrays[0])
            found = max(found, float(np.max(difference, where=np.isfinite(difference), initial=0)))
    return found
