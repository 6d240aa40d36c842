"""Errors of elementwise results for each element: the scale of the whole tensor says little."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from against_xla import Run

_RELATIVE = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
"""The allowed distance of an element from XLA: XLA's own error (25 ULP in f32) plus a rounding."""


def ulps(got: np.ndarray, truth: np.ndarray) -> float:
    """The largest error of `got` in units in the last place of its type.

    Counts only elements whose true value is a normal number of that type; `got` must be finite for
    them. NaN must be NaN.
    """
    info = ml_dtypes.finfo(got.dtype)
    size = np.abs(np.asarray(truth, np.longdouble))
    normal = (size >= float(info.smallest_normal)) & (size <= float(info.max))
    assert np.isfinite(got[normal].astype(np.float64)).all()
    assert np.isnan(got[np.isnan(truth)].astype(np.float64)).all()
    unit = np.exp2(np.floor(np.log2(size[normal])) - info.nmant)
    error = np.abs(got[normal].astype(np.longdouble) - truth[normal]) / unit
    return float(error.max(initial=0))


def like_xla(run: Run) -> None:
    """Asserts XLA's NaN, infinities and zeros, and its digits in every other element.

    Denormal results count as zeros: XLA flushes them.
    """
    for outputs in run.actual:
        for got, want in zip(outputs, run.expected, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            if want.dtype.name not in _RELATIVE:
                np.testing.assert_array_equal(got, want)
                continue
            floor = float(ml_dtypes.finfo(want.dtype).smallest_normal)
            np.testing.assert_allclose(
                got.astype(np.float64),
                want.astype(np.float64),
                rtol=_RELATIVE[want.dtype.name],
                atol=1.01 * floor,
                err_msg=run.text,
            )
