"""Loads programs of every accepted kind: binds weights, fixes sizes, sets names and layouts."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import jax
import jax.export
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError, UsageError
from hlo2onnx.frontend.advice import with_notes
from hlo2onnx.frontend.bind import bound, named_without_argument, stored_as, values_to_bind
from hlo2onnx.frontend.files import from_bytes, from_exported, from_module, from_path, from_string
from hlo2onnx.frontend.jax_lowered import from_function, from_lowered, unwrapped
from hlo2onnx.frontend.mlir.callbacks import Callbacks, drop_branches, has_callbacks, notes_of
from hlo2onnx.frontend.mlir.context import clone_module
from hlo2onnx.frontend.ports import positional_names, with_channels_second, with_names
from hlo2onnx.frontend.signature import PyTree
from hlo2onnx.frontend.source import Source
from hlo2onnx.frontend.specialize import specialized
from hlo2onnx.interface.description import BoundArgument
from hlo2onnx.ir.weight_storage import STORAGE_TYPES
from hlo2onnx.options import Dynamic, Options

__all__ = ["Source", "load"]


def load(
    source: object,
    args: Sequence[PyTree] = (),
    kwargs: Mapping[str, PyTree] | None = None,
    function: str | None = None,
    dynamic: Dynamic | None = None,
    constraints: Sequence[str] = (),
) -> Source:
    """Loads a program of any kind that `hlo2onnx.translate` lists.

    Args:
        source: The program.
        args, kwargs: Example arguments of a function.
        function: Name of the function, for a module with several.
        dynamic: Dimensions of a function's arguments that stay free.
        constraints: What holds for them.

    Raises:
        LoadError: It is not a program.
        UsageError: This kind of source does not take these arguments.
    """
    if str(type(source).__module__).partition(".")[0] in ("onnx", "onnx_ir", "hlo2onnx"):
        name = type(source).__name__
        raise LoadError(f"this {name} is ONNX already; hlo2onnx reads StableHLO: {_ADVICE}")
    if constraints and (not callable(source) or isinstance(source, jax.export.Exported)):
        raise UsageError(
            "constraints= needs a function and example arguments; other programs have the"
            " constraints of their jax.export.SymbolicScope"
        )
    made_here = _from_jax(source, args, kwargs or {}, dynamic, constraints)
    if made_here is not None:
        if function not in (None, "main"):
            raise UsageError("function= chooses a function of a module; this source has one")
        return made_here
    if dynamic is not None:
        raise UsageError("dynamic= needs a function and example arguments")
    if args or kwargs:
        raise UsageError(
            f"example arguments need a function; a {type(source).__name__} has its own types"
        )
    if isinstance(source, str):
        return from_string(source, function)
    if isinstance(source, os.PathLike):
        return from_path(Path(source), function)
    if isinstance(source, bytes | bytearray | memoryview):
        return from_bytes(bytes(source), "the input", function)
    if isinstance(source, ir.Module):
        return from_module(source, "the given module", function)
    raise LoadError(f"cannot translate a {type(source).__name__}: {_ADVICE}")


def _from_jax(
    source: object,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    dynamic: Dynamic | None,
    constraints: Sequence[str],
) -> Source | None:
    """The program of a JAX object with a calling convention; None for other sources."""
    if isinstance(source, jax.stages.Traced):
        source = source.lower()
    lowered = unwrapped(source)
    if isinstance(source, jax.export.Exported) or lowered is not None:
        if args or kwargs or dynamic is not None:
            raise UsageError("example arguments need a function; this program has its own types")
        return from_exported(source) if lowered is None else from_lowered(lowered)
    if isinstance(source, jax.stages.Compiled):
        raise LoadError("XLA has compiled this program: pass the result of jit(f).lower(...)")
    if callable(source):
        return from_function(source, args, kwargs, dynamic, constraints)
    return None


_ADVICE = (
    "pass a jax.stages.Lowered, a jax.export.Exported, a path, StableHLO text or bytecode, an MLIR"
    " module of jaxlib, or a function with example arguments"
)


def prepared(
    source: object,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    options: Options,
) -> Source:
    """Loads a program, binds its weights, fixes its sizes and sets its names and layouts.

    Args:
        source: The program, as `hlo2onnx.translate` takes it.
        args, kwargs: Example arguments of a function.
        options: The options of the translation.

    Raises:
        LoadError: The source is not a readable program.
        UsageError: An option does not fit the program.
    """
    loaded = load(source, args, kwargs, options.function, options.dynamic, options.constraints)
    loaded = unbound = without_untaken_branches(loaded, options.callbacks)
    names = parameters = positional_names(source)
    if loaded.weights is not None:
        loaded = named_without_argument(bound(loaded, {0: loaded.weights}))
        names = ["self", *parameters]
    to_bind = values_to_bind(options.bind, parameters, args, kwargs)
    if to_bind:
        loaded = bound(loaded, to_bind, parameters[: len(args)])
        named = tuple(_bound_argument(key, parameters) for key in to_bind)
        loaded = replace(loaded, signature=replace(loaded.signature, bound_arguments=named))
    loaded = with_notes(unbound, loaded, names)
    if options.half_weights is not None:
        loaded = stored_as(loaded, STORAGE_TYPES[options.half_weights])
    if options.specialize:
        loaded = specialized(loaded, options.specialize)
    signature = with_names(loaded.signature, options.input_names, options.output_names)
    signature = with_channels_second(signature, options.inputs_as_nchw, options.outputs_as_nchw)
    return replace(loaded, signature=signature)


def _bound_argument(key: str | int, parameters: Sequence[str]) -> BoundArgument:
    """The name and position of an argument that the user has bound by either of them."""
    if isinstance(key, int):
        return BoundArgument(parameters[key] if key < len(parameters) else f"argument {key}", key)
    return BoundArgument(key, parameters.index(key) if key in parameters else None)


def parameters_of(source: object) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function; empty for other sources."""
    if not callable(source):
        return {}
    try:
        return inspect.signature(source).parameters
    except (TypeError, ValueError):  # of C functions
        return {}


def without_untaken_branches(source: Source, policy: str) -> Source:
    """The program without the branches that count as not taken, with a note on each.

    Translation and verification both use it. XLA crashes on Python callbacks of another process, or
    of another executable of this process.

    Args:
        source: The program. Its module does not change.
        policy: See `hlo2onnx.options.Options.callbacks`.

    Raises:
        LoadError: The program nests regions or calls too deeply.
    """
    if policy == "refuse" or not has_callbacks(source.module.operation):
        return source
    module = clone_module(source.module)
    try:
        untaken = Callbacks(module, policy).untaken
    except RecursionError:
        raise LoadError("the program nests regions or calls too deeply to be translated") from None
    if not untaken:
        return source
    notes = notes_of(module, untaken)
    drop_branches(untaken)
    return replace(source, module=module, notes=(*source.notes, *notes))
