"""hlo2onnx: any jitted JAX function, any StableHLO file in; a verified ONNX model out."""

from __future__ import annotations

from hlo2onnx.api import translate
from hlo2onnx.errors import (
    Hlo2OnnxError,
    LoadError,
    SignatureError,
    TranslationError,
    UnsupportedOp,
    UsageError,
    VerificationError,
)
from hlo2onnx.program import OnnxProgram
from hlo2onnx.verification.compare import Verification

__version__ = "0.1.0"

__all__ = [
    "Hlo2OnnxError",
    "LoadError",
    "OnnxProgram",
    "SignatureError",
    "TranslationError",
    "UnsupportedOp",
    "UsageError",
    "Verification",
    "VerificationError",
    "__version__",
    "translate",
]
