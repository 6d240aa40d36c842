"""The options of a translation and their checks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from hlo2onnx.custom_calls import Translation, check_translations
from hlo2onnx.errors import UsageError

IR_VERSIONS = {17: 8, 18: 10, 24: 11, 25: 12, 26: 13, 28: 14}
"""ONNX IR versions of models, by their first opset."""

BITCAST_OPSET = 26
"""First opset with BitCast."""

RESERVED = "hlo2onnx."
"""How the keys of the metadata begin that are not the user's."""

DUMP_VARIABLE = "HLO2ONNX_DUMP"

NanPolicy = Literal["default", "xla", "runtime"]
HalfPolicy = Literal["xla", "fast"]
PlacementPolicy = Literal["mixed", "strict"]
AttentionPolicy = Literal["exact", "gqa"]
FunctionPolicy = Literal["inline", "keep"]
CallbackPolicy = Literal["drop-checks", "unreachable", "refuse"]
DenormalPolicy = Literal["keep", "flush"]
WeightsDtype = Literal["bfloat16", "float16", "int4", "int8"]

IntegerWeights = Mapping[str, Literal["int4", "int8"] | None]
"""Types of weights by patterns of their names; the last one that fits decides."""

Dynamic = str | Mapping[str | int, str]
"""Dimensions of the arguments: one text for all, or texts by name or position."""

Bind = str | int | Iterable[str | int] | Mapping[str | int, object]
"""Arguments to bind, by name or position. Without values, these are the example arguments."""

PortNames = Sequence[str] | Mapping[str, str]
"""A name for each input or output in order, or new names by the present ones."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "nan": get_args(NanPolicy),
    "half": get_args(HalfPolicy),
    "placement": get_args(PlacementPolicy),
    "attention": get_args(AttentionPolicy),
    "functions": get_args(FunctionPolicy),
    "callbacks": get_args(CallbackPolicy),
    "denormals": get_args(DenormalPolicy),
    "weights_dtype": get_args(WeightsDtype),
}
"""The options that take one of a few texts."""


@dataclass(frozen=True)
class Options:
    """Options of one translation.

    Attributes:
        opset: ONNX opset of the model. None: that of the target (21 for "ort-cpu"), or a newer
            one if the model needs it.
        target: Name of the runtime whose kernels the model must fit (`hlo2onnx.targets`), or
            path of its table.
        function: Public function of the module to translate. None: `main`, or the only one.
        nan: NaN semantics of max, min, pooling, arg-reductions and recurrent cells. "default":
            XLA's where that is cheap (reductions and arg-reductions), the runtime's own in pooling,
            QuantizeLinear, LSTM, GRU and Attention. "xla": XLA's everywhere. "runtime": no guards.
        half: Arithmetic in f16 and bf16. "xla": every op rounds once, as in XLA on the CPU. "fast":
            values are rounded where they are stored, compared or converted to integers. Between,
            they are f32, or the runtime's own kernels skip roundings.
        placement: Nodes that a target's device has no kernel for, such as those of "ort-cuda".
            "mixed": ONNX Runtime runs them on the CPU, which costs copies; the report says which.
            "strict": they are refused.
        attention: Attention to a cache in f32. "exact": operators with XLA's numbers. "gqa":
            ONNX Runtime's GroupQueryAttention, as in the models of onnxruntime-genai, where the
            mask hides the keys that follow a query. Queries that see no key, as those of padding,
            get other numbers, positions of a shared cache behind the last token may change, and
            several new tokens after a past are for one sequence only. The report counts them.
        without: Names of rewrite rules that are switched off.
        weights_dtype: Type in which f32 weights are stored. "bfloat16" or "float16": all of them,
            and the nodes that read them get f32 again. "int4" or "int8": the matrices that only
            products read, with a scale for each block of 32 rows, as ONNX Runtime's quantizer does
            it; a mapping gives types by patterns of names, such as {"*": "int4", "*head*": None}.
            The report names the weights. None keeps f32.
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
        devices: In programs for several devices, limit of the copies of an op that does not compute
            the values of all devices at once. See docs/devices.md.
        metadata: Texts of the user in the metadata of the model, by key.
        dynamic, constraints, specialize, bind, inputs_as_nchw, outputs_as_nchw, input_names,
            output_names: Options of the loading. See `hlo2onnx.translate`.
    """

    opset: int | None = None
    target: str = "ort-cpu"
    function: str | None = None
    nan: NanPolicy = "default"
    half: HalfPolicy = "xla"
    placement: PlacementPolicy = "mixed"
    attention: AttentionPolicy = "exact"
    without: frozenset[str] = frozenset()
    dump: Path | None = None
    weights_dtype: WeightsDtype | IntegerWeights | None = None
    functions: FunctionPolicy = "inline"
    callbacks: CallbackPolicy = "drop-checks"
    custom_calls: Mapping[str, Translation] = field(default_factory=dict)
    denormals: DenormalPolicy = "keep"
    devices: int = 16
    metadata: Mapping[str, str] = field(default_factory=dict)
    dynamic: Dynamic | None = None
    constraints: tuple[str, ...] = ()
    specialize: Mapping[str, int] | None = None
    bind: Bind = ()
    inputs_as_nchw: tuple[str, ...] = ()
    outputs_as_nchw: tuple[str, ...] = ()
    input_names: PortNames | None = None
    output_names: PortNames | None = None

    def __post_init__(self) -> None:
        if self.opset is not None and type(self.opset) is not int:
            raise UsageError(f"opset={self.opset!r} is not a whole number, such as 23")
        if not isinstance(self.target, str):
            raise UsageError(f"target={self.target!r} is not a string")
        if not isinstance(self.function, str | None):
            raise UsageError(f"function={self.function!r} is not a string")
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if name == "weights_dtype" and isinstance(value, Mapping):
                _check_types_of_weights(value)
            elif value not in (getattr(Options, name), *choices):
                raise UsageError(f"{name}={value!r} is not one of {', '.join(choices)}")
        if type(self.devices) is not int or self.devices < 1:
            raise UsageError(f"devices={self.devices!r} is not a count of devices, such as 16")
        check_translations(self.custom_calls)
        _check_metadata(self.metadata)
        for name in ("custom_calls", "metadata"):
            object.__setattr__(self, name, dict(getattr(self, name)))

    @property
    def half_weights(self) -> str | None:
        """The half type in which all f32 weights are stored; None for other types."""
        given = self.weights_dtype
        return given if isinstance(given, str) and not given.startswith("int") else None

    @property
    def integer_weights(self) -> Mapping[str, str | None]:
        """The integer types of weights by patterns of their names."""
        given = self.weights_dtype
        if isinstance(given, Mapping):
            return given
        return {} if given is None or self.half_weights is not None else {"*": given}

    def with_environment(self) -> Options:
        """The options, with `dump` from HLO2ONNX_DUMP if it is not set."""
        folder = os.environ.get(DUMP_VARIABLE)
        if self.dump is None and folder:
            return replace(self, dump=Path(folder))
        return self


def _check_types_of_weights(given: Mapping[object, object]) -> None:
    for name, kind in given.items():
        if not isinstance(name, str) or kind not in ("int4", "int8", None):
            raise UsageError(
                f"weights_dtype= has {name!r}: {kind!r}; a mapping gives patterns of names 'int4',"
                " 'int8' or None"
            )


def _check_metadata(given: object) -> None:
    """Checks that all keys and values are strings, and that no key is one of ours."""
    if not isinstance(given, Mapping):
        raise UsageError(f"metadata={given!r} is not a mapping of strings to strings")
    for key, text in given.items():
        if not (isinstance(key, str) and isinstance(text, str)):
            raise UsageError(
                f"metadata= has {key!r}: {text!r}, and both must be strings: json.dumps makes one"
                " of other data"
            )
        if key.startswith(RESERVED):
            raise UsageError(
                f"the key {key!r} in metadata= begins with {RESERVED!r}, as those of hlo2onnx:"
                " give it another name"
            )


def names(option: str, given: str | Iterable[str], what: str = "name") -> tuple[str, ...]:
    """The value of an option that takes one name, or another text, or several.

    Raises:
        UsageError: The value is neither a text nor a list of texts.
    """
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, Iterable) or not all(isinstance(name, str) for name in found):
        raise UsageError(f"{option}={given!r} is neither a {what} nor a list of {what}s")
    return tuple(found)


def ir_version(opset: int) -> int:
    """The ONNX IR version for an opset. It has the types of the opset."""
    return IR_VERSIONS[max(first for first in IR_VERSIONS if first <= opset)]
