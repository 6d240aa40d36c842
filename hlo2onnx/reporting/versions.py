"""The versions of the packages that made a report."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("hlo2onnx", "jax", "jaxlib", "onnx", "onnx-ir", "onnxruntime", "numpy")


def versions() -> str:
    """The installed packages and their versions, as text."""
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:  # onnxruntime is optional, and has builds of other names
            continue
    return ", ".join([*found, f"Python {platform.python_version()}"])
