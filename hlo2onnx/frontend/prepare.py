"""Loads a program with the options of loading: bound weights, fixed sizes, names, layouts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hlo2onnx.errors import LoadError
from hlo2onnx.frontend.bind import bound, named_without_argument, stored_as, values_to_bind
from hlo2onnx.frontend.dropped import with_notes
from hlo2onnx.frontend.layouts import with_channels_second
from hlo2onnx.frontend.load import load
from hlo2onnx.frontend.mlir.callbacks import Callbacks, has_callbacks
from hlo2onnx.frontend.mlir.context import clone_module
from hlo2onnx.frontend.mlir.untaken_branches import drop_branches, notes_of
from hlo2onnx.frontend.port_names import with_names
from hlo2onnx.frontend.signature import PyTree
from hlo2onnx.frontend.source import Source
from hlo2onnx.frontend.specialize import specialized
from hlo2onnx.interface.description import BoundArgument
from hlo2onnx.ir.weight_storage import STORAGE_TYPES
from hlo2onnx.options import Options


def prepared(
    source: object,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    parameters: Sequence[str],
    options: Options,
) -> Source:
    """Loads a program, binds its weights, fixes its sizes and sets its names and layouts.

    Args:
        source: The program, as `hlo2onnx.translate` takes it.
        args, kwargs: Example arguments of a function.
        parameters: Names of the function's parameters.
        options: The options of the translation.

    Raises:
        LoadError: The source is not a readable program.
        UsageError: An option does not fit the program.
    """
    loaded = load(source, args, kwargs, options.function, options.dynamic, options.constraints)
    loaded = unbound = without_untaken_branches(loaded, options.callbacks)
    names = parameters
    if loaded.weights is not None:
        loaded = named_without_argument(bound(loaded, {0: loaded.weights}))
        names = ["self", *parameters]
    to_bind = values_to_bind(options.bind, parameters, args, kwargs)
    if to_bind:
        loaded = bound(loaded, to_bind, parameters[: len(args)])
        named = tuple(_bound_argument(key, parameters) for key in to_bind)
        loaded = replace(loaded, signature=replace(loaded.signature, bound_arguments=named))
    loaded = with_notes(unbound, loaded, names)
    if options.weights_dtype is not None:
        loaded = stored_as(loaded, STORAGE_TYPES[options.weights_dtype])
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
