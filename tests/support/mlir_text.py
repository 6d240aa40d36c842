"""Parts of MLIR programs as text."""

from __future__ import annotations

from collections.abc import Iterable


def tensor(dims: Iterable[int], element: str = "f32") -> str:
    """A tensor type, such as tensor<2x3xf32>."""
    return f"tensor<{'x'.join([*map(str, dims), element])}>"
