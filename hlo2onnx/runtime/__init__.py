"""Runs saved models. It needs numpy and ONNX Runtime, and imports neither JAX nor onnx."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo2onnx.errors import (
        Hlo2OnnxError,
        LoadError,
        SignatureError,
        UsageError,
        VerificationError,
    )
    from hlo2onnx.runtime.loading import Program, load
    from hlo2onnx.runtime.policy import Policy
    from hlo2onnx.runtime.stepping import StateArray

__all__ = [
    "Hlo2OnnxError",
    "LoadError",
    "Policy",
    "Program",
    "SignatureError",
    "StateArray",
    "UsageError",
    "VerificationError",
    "load",
]

_HOMES = {"Program": "loading", "load": "loading", "Policy": "policy", "StateArray": "stepping"}
"""Modules of names. All other names are errors. The command checks its paths with modules of this
folder, and its help does not need numpy."""


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = f"{__name__}.{_HOMES[name]}" if name in _HOMES else "hlo2onnx.errors"
    found: object = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found
