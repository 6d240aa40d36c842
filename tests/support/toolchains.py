"""Compilers, packages of npm, and ONNX Runtime for C++. What is missing skips the test."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnxruntime
import pytest

from hlo2onnx.runtime.adapters.installed import CACHE


def node_modules(package: str) -> Path:
    """The newest node_modules with a package of npm."""
    found = sorted(CACHE.glob(f"{package}-*/node_modules/{package}"))
    if not found:
        pytest.skip(f"{package}: npm install --prefix {CACHE / package}-latest {package}")
    return found[-1].parent


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def ort_headers() -> Path:
    """The folder of the headers of ONNX Runtime. A package of npm has them."""
    package = node_modules("com.github.asus4.onnxruntime") / "com.github.asus4.onnxruntime"
    return next(package.rglob("ios-arm64/**/onnxruntime_cxx_api.h")).parent


def ort_library() -> Path:
    """The library of ONNX Runtime that the Python package has."""
    (found,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    return found
