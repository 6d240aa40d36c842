"""The switches of a translation, validated in one place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hlo2onnx.custom_calls import Translation, check_translations
from hlo2onnx.errors import UsageError

DEFAULT_OPSET = 23
IR_VERSION = 10
"""ONNX IR version of models up to opset 23; newer opsets need newer ones (see `ir_version`)."""

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
        opset: Wanted ONNX opset; None lets the program decide (23, or 26 where BitCast is needed).
        target: Name of the runtime whose kernels the model must fit (`hlo2onnx.targets`).
        function: Public function of the module to translate; None means `main` or the only one.
        nan: Who wins when max, min and arg-reductions meet NaN. "default": as in XLA wherever it
            is cheap (reductions and arg-reductions), the runtime's own for pooling; "xla": as in
            XLA everywhere; "runtime": no guards.
        half: How f16 is computed. "xla": every op rounds once, as XLA does on the CPU; "fast": the
            runtime's own f16 kernels, which skip roundings between ops.
        without: Names of raising rules that are switched off.
        weights_dtype: "bfloat16" or "float16": the type that f32 weights are stored in; None keeps
            theirs. What reads them gets f32 again.
        dump: Folder that receives the module or graph after each stage; None writes nothing.
        functions: What becomes of private functions and composites of the program. "inline": their
            bodies stand where they are called; "keep": they are functions of the model, domain
            "hlo2onnx".
        callbacks: Which branches (of `lax.cond` or `lax.switch`) with a Python callback, whose
            result is read, count as not taken. "drop-checks": those that raise an error of
            `equinox.error_if`, as the checks of diffrax, lineax and optimistix do; "unreachable":
            every one; "refuse": none. Callbacks in other places cannot be translated.
        custom_calls: What custom calls are translated to, by target, beside what
            `hlo2onnx.expand_custom_call` and `hlo2onnx.custom_call` have registered.
        denormals: What ONNX Runtime does with denormal floats when the program is called. "keep":
            it computes with them; "flush": it takes them for zeros, as XLA does on the CPU. The
            model is the same.
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
        """The options with HLO2ONNX_DUMP filled in where `dump` is not given."""
        folder = os.environ.get(DUMP_VARIABLE)
        if self.dump is None and folder:
            return replace(self, dump=Path(folder))
        return self


def ir_version(opset: int) -> int:
    """The ONNX IR version a model of this opset declares: the oldest that has its types."""
    return IR_VERSION if opset <= 23 else {24: 11, 25: 12}.get(opset, 13)
