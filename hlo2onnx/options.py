"""The options of a translation and their checks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hlo2onnx.custom_calls import Translation, check_translations
from hlo2onnx.errors import UsageError

DEFAULT_OPSET = 23
IR_VERSION = 10
"""ONNX IR version of models up to opset 23. Newer opsets need a newer one: see `ir_version`."""

BITCAST_OPSET = 26
"""First opset with BitCast."""

NAN_POLICIES = ("default", "xla", "runtime")
WEIGHTS_DTYPES = (None, "bfloat16", "float16")
HALF_POLICIES = ("xla", "fast")
FUNCTION_POLICIES = ("inline", "keep")
CALLBACK_POLICIES = ("drop-checks", "unreachable", "refuse")
DENORMAL_POLICIES = ("keep", "flush")
DUMP_VARIABLE = "HLO2ONNX_DUMP"


@dataclass(frozen=True)
class Options:
    """Options of one translation.

    Attributes:
        opset: ONNX opset of the model. None: 23, or 26 if the program needs BitCast.
        target: Name of the runtime whose kernels the model must fit (`hlo2onnx.targets`), or
            path of its table.
        function: Public function of the module to translate. None: `main`, or the only one.
        nan: NaN semantics of max, min, pooling and arg-reductions. "default": XLA's where that is
            cheap (reductions and arg-reductions), the runtime's own in pooling. "xla": XLA's
            everywhere. "runtime": no guards.
        half: f16 arithmetic. "xla": every op rounds once, as in XLA on the CPU. "fast": the
            runtime's own f16 kernels, which skip roundings between ops.
        without: Names of rewrite rules that are switched off.
        weights_dtype: Type in which f32 weights are stored, "bfloat16" or "float16". The nodes
            that read them get f32 again. None keeps f32.
        dump: Folder that receives the module or graph after each stage. None writes nothing.
        functions: Private functions and composites of the program. "inline": their bodies replace
            the calls. "keep": they are functions of the model, in the domain "hlo2onnx".
        callbacks: Branches of `lax.cond` and `lax.switch` that are left out because they call
            Python and use the result. "drop-checks": those that raise an error of
            `equinox.error_if`, as the checks of diffrax, lineax and optimistix do. "unreachable":
            all of them. "refuse": none. Callbacks in other places cannot be translated.
        custom_calls: Translations for custom calls, by target. They take precedence over those
            that `hlo2onnx.expand_custom_call` and `hlo2onnx.custom_call` have registered.
        denormals: Denormal floats in calls of the program. "keep": ONNX Runtime computes with
            them. "flush": it treats them as zeros, as XLA does on the CPU. The model is the same.
    """

    opset: int | None = None
    target: str = "ort-cpu"
    function: str | None = None
    nan: str = "default"
    half: str = "xla"
    without: frozenset[str] = frozenset()
    dump: Path | None = None
    weights_dtype: str | None = None
    functions: str = "inline"
    callbacks: str = "drop-checks"
    custom_calls: Mapping[str, Translation] = field(default_factory=dict)
    denormals: str = "keep"

    def __post_init__(self) -> None:
        if self.opset is not None and type(self.opset) is not int:
            raise UsageError(f"opset={self.opset!r} is not a whole number, such as {DEFAULT_OPSET}")
        for name in ("target", "function"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (value is None and name == "function"):
                raise UsageError(f"{name}={value!r} is not a text")
        if self.nan not in NAN_POLICIES:
            raise UsageError(f"nan={self.nan!r} is not one of {', '.join(NAN_POLICIES)}")
        if self.weights_dtype not in WEIGHTS_DTYPES:
            known = ", ".join(filter(None, WEIGHTS_DTYPES))
            raise UsageError(f"weights_dtype={self.weights_dtype!r} is not one of {known}")
        if self.half not in HALF_POLICIES:
            raise UsageError(f"half={self.half!r} is not one of {', '.join(HALF_POLICIES)}")
        if self.functions not in FUNCTION_POLICIES:
            known = ", ".join(FUNCTION_POLICIES)
            raise UsageError(f"functions={self.functions!r} is not one of {known}")
        if self.callbacks not in CALLBACK_POLICIES:
            known = ", ".join(CALLBACK_POLICIES)
            raise UsageError(f"callbacks={self.callbacks!r} is not one of {known}")
        if self.denormals not in DENORMAL_POLICIES:
            known = ", ".join(DENORMAL_POLICIES)
            raise UsageError(f"denormals={self.denormals!r} is not one of {known}")
        check_translations(self.custom_calls)

    def with_environment(self) -> Options:
        """The options, with `dump` from HLO2ONNX_DUMP if it is not set."""
        folder = os.environ.get(DUMP_VARIABLE)
        if self.dump is None and folder:
            return replace(self, dump=Path(folder))
        return self


def ir_version(opset: int) -> int:
    """The ONNX IR version for an opset: the oldest one that has its types."""
    return IR_VERSION if opset <= 23 else {24: 11, 25: 12}.get(opset, 13)
