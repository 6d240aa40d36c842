"""How much an output varies: a comparison says little of one that is nearly constant.

The tolerance of an output is relative to its magnitude. If all elements of all trials are nearly
equal, errors as large as their differences are within the tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo2onnx.verify.element_kinds import in_f64
from hlo2onnx.verify.tolerance import Tolerance

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
