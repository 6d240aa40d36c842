"""hlo2onnx: any jitted JAX function, any StableHLO file in; a verified ONNX model out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from hlo2onnx.custom_calls import CustomOp, custom_call, expand_custom_call
from hlo2onnx.errors import (
    Hlo2OnnxError,
    LoadError,
    PluginError,
    SignatureError,
    TranslationError,
    UnsupportedOp,
    UsageError,
    VerificationError,
    WriteError,
)

if TYPE_CHECKING:
    from hlo2onnx.api import translate
    from hlo2onnx.program import OnnxProgram
    from hlo2onnx.programs import OnnxPrograms
    from hlo2onnx.runtime.state import StateArray
    from hlo2onnx.verification.compare import Verification

__version__ = "0.1.0"

__all__ = [
    "CustomOp",
    "Hlo2OnnxError",
    "LoadError",
    "OnnxProgram",
    "OnnxPrograms",
    "PluginError",
    "SignatureError",
    "StateArray",
    "TranslationError",
    "UnsupportedOp",
    "UsageError",
    "Verification",
    "VerificationError",
    "WriteError",
    "__version__",
    "custom_call",
    "expand_custom_call",
    "translate",
]

_HOMES = {
    "OnnxProgram": "hlo2onnx.program",
    "OnnxPrograms": "hlo2onnx.programs",
    "StateArray": "hlo2onnx.runtime.state",
    "Verification": "hlo2onnx.verification.compare",
    "translate": "hlo2onnx.api",
}
"""Names whose modules import JAX. The command's help, and the child process that reads damaged
files, do not need it."""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
