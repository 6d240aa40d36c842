"""The versions that decide over the result of a translation, for reports."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("hlo2onnx", "jax", "jaxlib", "onnx", "onnxruntime", "numpy")


def versions() -> dict[str, str]:
    """The versions of the packages, of Python and of the platform."""
    found = {name: _version(name) for name in PACKAGES}
    return found | {"python": platform.python_version(), "platform": platform.platform()}


def versions_text() -> str:
    """The same in one line."""
    return ", ".join(f"{name} {version}" for name, version in versions().items())


def _version(package: str) -> str:
    if package == "hlo2onnx":
        from hlo2onnx import __version__

        return __version__
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
