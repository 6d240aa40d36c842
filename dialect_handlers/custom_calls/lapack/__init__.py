"""Linear algebra that JAX leaves to LAPACK, cuSOLVER and the like.

The numbers are LAPACK's, for every platform's call of the same function.
"""

from __future__ import annotations


def lapack(function: str, *types: str) -> list[str]:
    """LAPACK's function for each element type, whose letters come before its name."""
    return [f"lapack_{letters}{function}_ffi" for letters in types or "sdcz"]


def gpu(function: str) -> list[str]:
    """The function for each platform of GPUs."""
    return [f"{platform}{function}" for platform in ("cu", "hip", "oneapi")]
