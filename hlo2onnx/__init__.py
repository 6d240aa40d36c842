"""hlo2onnx: any jitted JAX function, any StableHLO file in; a verified ONNX model out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo2onnx import genai as genai
    from hlo2onnx import policy as policy
    from hlo2onnx import runtime as runtime
    from hlo2onnx.api import translate
    from hlo2onnx.bisect_models import bisect
    from hlo2onnx.command.check import Check, check
    from hlo2onnx.custom_calls import CustomOp, custom_call, expand_custom_call
    from hlo2onnx.errors import (
        Hlo2OnnxError,
        LoadError,
        PluginError,
        Refusal,
        SignatureError,
        TranslationError,
        UnsupportedOp,
        UsageError,
        VerificationError,
        WriteError,
    )
    from hlo2onnx.loading import load
    from hlo2onnx.program import OnnxProgram, OnnxPrograms
    from hlo2onnx.reduction.reduce import Reduction, reduce
    from hlo2onnx.report import Report
    from hlo2onnx.runtime.profiling import Profile
    from hlo2onnx.runtime.stepping import StateArray
    from hlo2onnx.verify.compare import Verification
    from hlo2onnx.verify.divergence import Divergence

__version__ = "0.1.0"

__all__ = [
    "Check",
    "CustomOp",
    "Divergence",
    "Hlo2OnnxError",
    "LoadError",
    "OnnxProgram",
    "OnnxPrograms",
    "PluginError",
    "Profile",
    "Reduction",
    "Refusal",
    "Report",
    "SignatureError",
    "StateArray",
    "TranslationError",
    "UnsupportedOp",
    "UsageError",
    "Verification",
    "VerificationError",
    "WriteError",
    "__version__",
    "bisect",
    "check",
    "custom_call",
    "expand_custom_call",
    "load",
    "reduce",
    "translate",
]

_MODULES = ("genai", "policy", "runtime")
_HOMES = {
    "hlo2onnx.api": ("translate",),
    "hlo2onnx.bisect_models": ("bisect",),
    "hlo2onnx.verify.divergence": ("Divergence",),
    "hlo2onnx.command.check": ("Check", "check"),
    "hlo2onnx.custom_calls": ("CustomOp", "custom_call", "expand_custom_call"),
    "hlo2onnx.loading": ("load",),
    "hlo2onnx.program": ("OnnxProgram", "OnnxPrograms"),
    "hlo2onnx.reduction.reduce": ("Reduction", "reduce"),
    "hlo2onnx.report": ("Report",),
    "hlo2onnx.runtime.profiling": ("Profile",),
    "hlo2onnx.runtime.stepping": ("StateArray",),
    "hlo2onnx.verify.compare": ("Verification",),
}
"""Modules of names. All other names are errors. `hlo2onnx.runtime` runs where JAX is not installed,
and the command's help and the child process that reads damaged files do not need it."""


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"hlo2onnx.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "hlo2onnx.errors")
    try:
        found: object = getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name != home:
            raise
        why = f"hlo2onnx.{name} is not part of hlo2onnx-runtime: pip install hlo2onnx"
        raise ModuleNotFoundError(why, name=home) from None
    globals()[name] = found
    return found
