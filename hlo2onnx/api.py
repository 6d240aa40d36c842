"""`translate`, the entry point of the package."""

from __future__ import annotations

import difflib
import inspect
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack, get_type_hints, overload

from jax.export import Exported
from jax.stages import Lowered, Traced
from jaxlib.mlir import ir

from hlo2onnx.custom_calls import Translation, libraries_of
from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.bind import as_stored
from hlo2onnx.frontend.load import parameters_of, prepared
from hlo2onnx.frontend.signature import PyTree
from hlo2onnx.options import (
    AttentionPolicy,
    Bind,
    CallbackPolicy,
    DenormalPolicy,
    Dynamic,
    FunctionPolicy,
    HalfPolicy,
    IntegerWeights,
    NanPolicy,
    Options,
    PlacementPolicy,
    PortNames,
    WeightsDtype,
    names,
)
from hlo2onnx.pipeline import run_stages
from hlo2onnx.program import OnnxProgram, OnnxPrograms
from hlo2onnx.runtime.paths import output_folder

Text: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview
Program: TypeAlias = Text | ir.Module | Lowered | Traced | Exported
"""The sources that know their own types and take no example arguments."""


class Keywords(TypedDict, total=False):
    """The options of `translate`, for type checkers."""

    opset: int | None
    target: str | Path
    function: str | None
    nan: NanPolicy
    half: HalfPolicy
    placement: PlacementPolicy
    attention: AttentionPolicy
    functions: FunctionPolicy
    callbacks: CallbackPolicy
    without: str | Iterable[str]
    dump: str | Path | None
    custom_calls: Mapping[str, Translation] | None
    denormals: DenormalPolicy
    devices: int
    metadata: Mapping[str, str] | None
    dynamic: Dynamic | None
    constraints: str | Iterable[str]
    specialize: Mapping[str, int] | None
    bind: Bind
    weights_dtype: WeightsDtype | IntegerWeights | None
    inputs_as_nchw: str | Iterable[str]
    outputs_as_nchw: str | Iterable[str]
    input_names: PortNames | None
    output_names: PortNames | None


@overload
def translate(
    source: Mapping[str, Program | Callable[..., object]], /, **options: Unpack[Keywords]
) -> OnnxPrograms: ...


@overload
def translate(source: Program, /, **options: Unpack[Keywords]) -> OnnxProgram: ...


@overload
def translate(
    source: Callable[..., object],
    /,
    *args: PyTree,
    opset: int | None = ...,
    target: str | Path = ...,
    function: str | None = ...,
    nan: NanPolicy = ...,
    half: HalfPolicy = ...,
    placement: PlacementPolicy = ...,
    attention: AttentionPolicy = ...,
    functions: FunctionPolicy = ...,
    callbacks: CallbackPolicy = ...,
    without: str | Iterable[str] = ...,
    dump: str | Path | None = ...,
    custom_calls: Mapping[str, Translation] | None = ...,
    denormals: DenormalPolicy = ...,
    devices: int = ...,
    metadata: Mapping[str, str] | None = ...,
    dynamic: Dynamic | None = ...,
    constraints: str | Iterable[str] = ...,
    specialize: Mapping[str, int] | None = ...,
    bind: Bind = ...,
    weights_dtype: WeightsDtype | IntegerWeights | None = ...,
    inputs_as_nchw: str | Iterable[str] = ...,
    outputs_as_nchw: str | Iterable[str] = ...,
    input_names: PortNames | None = ...,
    output_names: PortNames | None = ...,
    **kwargs: PyTree,
) -> OnnxProgram: ...


def translate(source: object, /, *args: PyTree, **keywords: Any) -> OnnxProgram | OnnxPrograms:
    """Translates a JAX function or StableHLO program to ONNX.

    Args:
        source: One of

            - a jitted or plain function, followed by example arguments. A module of equinox or
              flax.nnx is a function, too: its weights become initializers with their names in
              the module.
            - a `jax.stages.Lowered` or `Traced`
            - a `jax.export.Exported`, or its serialized bytes
            - a path, as `Path` or str
            - the text or bytes of a StableHLO program: text, MLIR bytecode or a portable artifact
              (VHLO)
            - an MLIR `ir.Module`
            - a mapping of names to several of these. The programs share their weights.
        args, kwargs: Example arguments of a function: arrays, `jax.ShapeDtypeStruct`s, or texts
            such as "b, 128" (f32) and "int32[b, s]". Named dimensions stay free. Leaves that are
            not arrays, such as the functions in an `equinox.Module`, become part of the program. A
            keyword with the name of an option below is that option. If the function has such a
            parameter, lower it first: `translate(jax.jit(f).lower(x, target=y))`.
        opset: ONNX opset of the model, 17 or newer. Default: that of the target, 21 for
            "ort-cpu", or a newer one if the model has operators or types that it lacks.
        target: Runtime whose kernels the model must fit, such as "ort-cpu", "ort-web" or
            "openvino" (`hlo2onnx --targets` lists all); "onnx" for the standard alone; or the path
            of a table for another runtime, `<name>.json` (CONTRIBUTING.md describes the tables).
        function: Function to translate, if the module has several. Default: `main`.
        nan: "default", "xla" or "runtime": see `hlo2onnx.options.Options.nan`.
        half: "xla" or "fast": see `hlo2onnx.options.Options.half`.
        placement: "mixed" or "strict": see `hlo2onnx.options.Options.placement`.
        attention: "exact" or "gqa": see `hlo2onnx.options.Options.attention`.
        functions: "inline" or "keep": see `hlo2onnx.options.Options.functions`.
        callbacks: "drop-checks", "unreachable" or "refuse": see
            `hlo2onnx.options.Options.callbacks`.
        without: Names of rewrite rules to switch off.
        dump: Folder that receives the program after each stage. Default: $HLO2ONNX_DUMP.
        custom_calls: Translations for custom calls, by target: a JAX function or a
            `hlo2onnx.CustomOp`. They take precedence over translations that
            `hlo2onnx.expand_custom_call` and `hlo2onnx.custom_call` have registered, and over the
            built-in ones.
        denormals: "keep" or "flush": see `hlo2onnx.options.Options.denormals`.
        devices: Limit of the copies of an op in programs for several devices: docs/devices.md.
        metadata: Texts to put into the metadata of the model, by key. Keys that begin with
            "hlo2onnx." are refused.
        dynamic: Dimensions that stay free, by the name or position of a function's argument.
            {"x": "b, ..."} names the first dimension of every array in `x` `b`. One text instead
            of a mapping is for all arguments.
        constraints: Constraints on the free dimensions, such as ["s <= 64", "t >= s"]: two
            expressions with <=, >= or == between them. JAX traces functions with them that it
            refuses otherwise, and calls check them.
        bind: Arguments to store in the model, as initializers named by their pytree paths:
            {"params": params}, by name or position. The names alone suffice if `args` holds the
            values. The program is then called without these arguments.
        weights_dtype: "bfloat16", "float16", "int4", "int8", or types by names: see
            `hlo2onnx.options.Options.weights_dtype`.
        specialize: Size of every free dimension, by name. The program is static then.
        inputs_as_nchw, outputs_as_nchw: Names of inputs and outputs whose channels move from the
            last axis to the second in the model. Calls and verification keep the layout of the
            program.
        input_names, output_names: New names of inputs and outputs: one for each in order, or a
            mapping from present to new names. A list may also have a name for each argument, those
            that the function does not read included. Other options take the new names.

    Returns:
        The program: the model, its report, and methods to run, verify and save it. For a mapping,
        a `hlo2onnx.OnnxPrograms`.

    Raises:
        LoadError: The source is not a readable program.
        TranslationError: ONNX or the target cannot express some ops. The error lists all of them.
        UsageError: An option or its value is unknown, or the function has a parameter of the same
            name.
    """
    options, kwargs = split_keywords(source, keywords)
    if not isinstance(source, Mapping):
        return _translate(source, args, kwargs, options)
    if args or kwargs:
        raise UsageError("example arguments need a single function, not several programs")
    _check_names(source)
    return OnnxPrograms({name: _translate(item, (), {}, options) for name, item in source.items()})


def options_from(**given: Unpack[Keywords]) -> Options:
    """The options of a translation, from keywords of `translate`.

    Raises:
        UsageError: An option is unknown, or its value is wrong.
    """
    fields: dict[str, Any] = dict(given)
    for name in fields.keys() - Keywords.__annotations__.keys():
        raise UsageError(f"translate has no option {name}=")
    if isinstance(fields.get("target"), Path):
        fields["target"] = str(fields["target"])
    for name in ("without", "inputs_as_nchw", "outputs_as_nchw"):
        fields[name] = names(name, fields.get(name, ()))
    fields["constraints"] = names("constraints", fields.get("constraints", ()), "text")
    fields["without"] = frozenset(fields["without"])
    if fields.get("dump") is not None:
        fields["dump"] = output_folder(fields["dump"])
    for name in ("custom_calls", "metadata"):
        if fields.get(name) is None:
            fields[name] = {}
    return Options(**fields).with_environment()


def split_keywords(
    source: object, keywords: Mapping[str, Any]
) -> tuple[Options, dict[str, PyTree]]:
    """The options among the keywords of a call, and the keyword arguments of the function.

    Raises:
        UsageError: A keyword is neither, or it is both; or an option has a wrong value.
    """
    for item in source.values() if isinstance(source, Mapping) else [source]:
        _check_keywords(item, keywords)
    given: Any = {name: keywords[name] for name in keywords if name in _DEFAULTS}
    return options_from(**given), {k: keywords[k] for k in keywords if k not in _DEFAULTS}


def _translate(
    source: object,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    options: Options,
) -> OnnxProgram:
    """Translates one program."""
    start = time.perf_counter()
    loaded = prepared(source, args, kwargs, options)
    seconds = time.perf_counter() - start
    model, report = run_stages(loaded, options)
    report.seconds = {"load": seconds, **report.seconds}
    libraries = libraries_of(model, options.custom_calls)
    options = replace(options, bind=())  # the program has the arrays already
    loaded = as_stored(loaded, model.graph)
    return OnnxProgram(model, loaded, report, libraries, options)


_DEFAULTS: Mapping[str, object] = {
    **{name: getattr(Options, name, None) for name in Keywords.__annotations__},
    "without": (),
}
"""The options of `translate` with their defaults."""


def _signature() -> inspect.Signature:
    """The signature of `translate` with all options, for `help` and editors."""
    types, kind = get_type_hints(Keywords), inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, kind, default=default, annotation=types[name])
        for name, default in _DEFAULTS.items()
    ]
    source, args, kwargs = inspect.signature(translate).parameters.values()
    return inspect.Signature([source, args, *options, kwargs.replace(name="kwargs")])


translate.__signature__ = _signature()  # type: ignore[attr-defined]


def _check_keywords(source: object, keywords: Mapping[str, object]) -> None:
    """Checks that every keyword is either an option or a parameter of the function.

    Args:
        source: The function, or another program.
        keywords: The keywords of a call of `translate`.

    Raises:
        UsageError: A keyword is neither, or it is both and not the option's default.
    """
    parameters = parameters_of(source)
    for name in sorted(keywords.keys() & _DEFAULTS.keys() & parameters.keys()):
        if keywords[name] is not _DEFAULTS[name]:
            raise UsageError(
                f"{name}= is an option of translate and a parameter of the function: pass"
                f" jax.jit(f).lower(..., {name}=...) instead of the function"
            )
    takes_any = any(item.kind is item.VAR_KEYWORD for item in parameters.values())
    if takes_any or (callable(source) and not parameters):  # its parameters may be unknown
        return
    for name in keywords.keys() - _DEFAULTS.keys() - parameters.keys():
        close = difflib.get_close_matches(name, list(_DEFAULTS), 1)
        advice = f"; did you mean {close[0]}=?" if close else f"; it has {', '.join(_DEFAULTS)}"
        missing = ", nor the function a parameter of that name" if callable(source) else ""
        raise UsageError(f"translate has no option {name}={missing}{advice}")


def _check_names(programs: Mapping[object, object]) -> None:
    """Checks that every program has a name that is valid as a file name.

    Raises:
        UsageError: A name is not, or there are no programs.
    """
    if not programs:
        raise UsageError("the mapping of programs is empty")
    for name in programs:
        if not isinstance(name, str) or not name or set(name) & set("/\\\0"):
            raise UsageError(f"{name!r} cannot name a program: its file would be <name>.onnx")
