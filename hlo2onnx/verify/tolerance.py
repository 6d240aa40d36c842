"""The tolerance of each element type. `compare` allows more where XLA's own error is larger."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
