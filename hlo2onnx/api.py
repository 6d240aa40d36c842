"""`translate`, the entry point of the package."""

from __future__ import annotations

import difflib
import inspect
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, overload

import jax

from hlo2onnx.custom_calls import Translation, libraries_of
from hlo2onnx.errors import UsageError
from hlo2onnx.options import Options
from hlo2onnx.pipeline import run_stages
from hlo2onnx.program import OnnxProgram
from hlo2onnx.programs import OnnxPrograms
from hlo2onnx.rewrite.weight_storage import STORAGE_TYPES
from hlo2onnx.runtime.output_paths import output_folder
from hlo2onnx.sources import Source, load
from hlo2onnx.sources.bind import Bind, bound, named_without_argument, stored_as, values_to_bind
from hlo2onnx.sources.partition import plain_function
from hlo2onnx.sources.prune_branches import without_untaken_branches
from hlo2onnx.sources.signature import with_channels_second
from hlo2onnx.sources.specialize import specialized
from hlo2onnx.sources.symbolic_arguments import Dynamic


@overload
def translate(source: Mapping[str, Any], /, **options: Any) -> OnnxPrograms: ...


@overload
def translate(source: Any, /, *args: Any, **options: Any) -> OnnxProgram: ...


def translate(
    source: Any,
    /,
    *args: Any,
    opset: int | None = None,
    target: str | Path = "ort-cpu",
    function: str | None = None,
    nan: str = "default",
    half: str = "xla",
    functions: str = "inline",
    callbacks: str = "drop-checks",
    without: Iterable[str] = (),
    dump: str | Path | None = None,
    custom_calls: Mapping[str, Translation] | None = None,
    denormals: str = "keep",
    dynamic: Dynamic | None = None,
    specialize: Mapping[str, int] | None = None,
    bind: Bind = (),
    weights_dtype: str | None = None,
    inputs_as_nchw: Iterable[str] = (),
    outputs_as_nchw: Iterable[str] = (),
    **kwargs: Any,
) -> OnnxProgram | OnnxPrograms:
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
            no arrays, such as the functions in an `equinox.Module`, become part of the program.
            A keyword with the name of an option below is that option. If the function has such a
            parameter, lower it first: `translate(jax.jit(f).lower(x, target=y))`.
        opset: ONNX opset of the model. Default: 23, or 26 if the program needs BitCast.
        target: Runtime whose kernels the model must fit: "ort-cpu", "onnx" for the standard
            alone, or the path of a table for another runtime, "<name>.json" (CONTRIBUTING.md
            describes the tables).
        function: Function to translate, if the module has several. Default: `main`.
        nan: "default", "xla" or "runtime": see `hlo2onnx.options.Options.nan`.
        half: "xla" or "fast": see `hlo2onnx.options.Options.half`.
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
        dynamic: Dimensions that stay free, by the name or position of a function's argument.
            {"x": "b, ..."} names the first dimension of every array in `x` `b`. One text instead
            of a mapping is for all arguments.
        bind: Arguments to store in the model, as initializers named by their pytree paths:
            {"params": params}, by name or position. The names alone suffice if `args` holds the
            values. The program is then called without these arguments.
        weights_dtype: "bfloat16" or "float16": see `hlo2onnx.options.Options.weights_dtype`.
        specialize: Size of every free dimension, by name. The program is static then.
        inputs_as_nchw, outputs_as_nchw: Names of inputs and outputs whose channels move from the
            last axis to the second in the model. Calls and verification keep the layout of the
            program.

    Returns:
        The program: the model, its report, and methods to run, verify and save it. For a mapping,
        a `hlo2onnx.OnnxPrograms`.

    Raises:
        LoadError: The source is not a readable program.
        TranslationError: ONNX or the target cannot express some ops. The error lists all of them.
        UsageError: An option or its value is unknown, or the function has a parameter of the same
            name.
    """
    given: dict[str, Any] = {
        "opset": opset, "target": target, "function": function, "nan": nan, "half": half,
        "functions": functions, "callbacks": callbacks, "without": without, "dump": dump,
        "custom_calls": custom_calls, "denormals": denormals, "dynamic": dynamic,
        "specialize": specialize, "bind": bind, "weights_dtype": weights_dtype,
        "inputs_as_nchw": inputs_as_nchw, "outputs_as_nchw": outputs_as_nchw,
    }  # fmt: skip
    _check_keywords(source, kwargs, given)
    if isinstance(source, Mapping):
        if args or kwargs:
            raise UsageError("example arguments go with one function, not with several programs")
        _check_names(source)
        return OnnxPrograms(
            {name: _translate(item, (), {}, given) for name, item in source.items()}
        )
    return _translate(source, args, kwargs, given)


def _translate(
    source: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: Mapping[str, Any]
) -> OnnxProgram:
    """Translates one program with the options of `translate`."""
    _check_parameters(source, given)
    options = _options(given)
    start = time.perf_counter()
    loaded = _load(source, args, kwargs, given)
    seconds = time.perf_counter() - start
    model, report = run_stages(loaded, options)
    report.seconds = {"load": seconds, **report.seconds}
    libraries = libraries_of(model, options.custom_calls)
    return OnnxProgram(model, loaded, report, libraries, options)


def _options(given: Mapping[str, Any]) -> Options:
    """The options that the stages read, converted to the types of `Options`."""
    own = {item.name: given[item.name] for item in fields(Options)}
    dump, calls = own["dump"], own["custom_calls"]
    if isinstance(own["target"], Path):
        own["target"] = str(own["target"])
    own["without"] = frozenset(_names("without", own["without"]))
    own["dump"] = None if dump is None else output_folder(dump)
    if calls is not None and not isinstance(calls, Mapping):
        raise UsageError(f"custom_calls={calls!r} is no mapping of targets to translations")
    own["custom_calls"] = dict(calls or {})
    return Options(**own).with_environment()


def _names(option: str, given: Any) -> list[str]:
    """The value of an option that takes one name or several, as a list.

    Raises:
        UsageError: The value is neither a name nor a list of names.
    """
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{option}={given!r} is neither a name nor a list of names")
    return list(names)


def _load(
    source: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: Mapping[str, Any]
) -> Source:
    """Loads the program, binds its weights, fixes its sizes and sets its layouts."""
    loaded = load(source, args, kwargs, given["function"], given["dynamic"])
    loaded = without_untaken_branches(loaded, given["callbacks"])
    if callable(source) and not isinstance(source, jax.stages.Wrapped):
        _, module = plain_function(source)
        if module is not None:
            loaded = named_without_argument(bound(loaded, {0: module}))
    to_bind = values_to_bind(given["bind"], _parameters(source), args, kwargs)
    if to_bind:
        loaded = bound(loaded, to_bind, _parameters(source)[: len(args)])
    if given["weights_dtype"] is not None:
        loaded = stored_as(loaded, STORAGE_TYPES[given["weights_dtype"]])
    if given["specialize"]:
        loaded = specialized(loaded, given["specialize"])
    inputs = _names("inputs_as_nchw", given["inputs_as_nchw"])
    outputs = _names("outputs_as_nchw", given["outputs_as_nchw"])
    if inputs or outputs:
        moved = with_channels_second(loaded.signature, inputs, outputs)
        loaded = replace(loaded, signature=moved)
    return loaded


def _check_keywords(source: Any, kwargs: Mapping[str, Any], options: Iterable[str]) -> None:
    """Checks that every keyword is an option or a parameter of the function.

    Raises:
        UsageError: A keyword is neither.
    """
    parameters = _signature(source)
    if any(item.kind is item.VAR_KEYWORD for item in parameters.values()):
        return
    if callable(source) and not parameters:  # its parameters are unknown
        return
    for name in kwargs.keys() - parameters.keys():
        close = difflib.get_close_matches(name, list(options), 1)
        advice = f"; did you mean {close[0]}=?" if close else f"; it has {', '.join(options)}"
        missing = ", nor the function a parameter of that name" if callable(source) else ""
        raise UsageError(f"translate has no option {name}={missing}{advice}")


def _check_names(programs: Mapping[Any, Any]) -> None:
    """Checks that every program has a name that is valid as a file name.

    Raises:
        UsageError: A name is not, or there are no programs.
    """
    if not programs:
        raise UsageError("there is no program in an empty mapping")
    for name in programs:
        if not isinstance(name, str) or not name or set(name) & set("/\\\0"):
            raise UsageError(f"{name!r} is no name for a program, whose file is <name>.onnx")


def _check_parameters(source: Any, options: Mapping[str, Any]) -> None:
    """Checks that no given option is also a parameter of the function.

    Raises:
        UsageError: An option is one.
    """
    defaults = translate.__kwdefaults__ or {}
    given = {name for name, value in options.items() if value is not defaults[name]}
    if not given or not callable(source):
        return
    for name in sorted(given & set(_parameters(source))):
        raise UsageError(
            f"{name}= is an option of translate and a parameter of the function: pass"
            f" jax.jit(f).lower(..., {name}=...) instead of the function"
        )


def _parameters(source: Any) -> list[str]:
    """The names of a function's parameters; empty for other sources."""
    return list(_signature(source))


def _signature(source: Any) -> Mapping[str, inspect.Parameter]:
    if not callable(source):
        return {}
    try:
        return inspect.signature(source).parameters
    except (TypeError, ValueError):  # of C functions
        return {}
