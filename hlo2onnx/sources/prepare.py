"""Loads a program with the options of loading: bound weights, fixed sizes, other layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import jax

from hlo2onnx.errors import UsageError
from hlo2onnx.options import Options
from hlo2onnx.rewrite.weight_storage import STORAGE_TYPES
from hlo2onnx.sources import Source, load
from hlo2onnx.sources.bind import Bind, bound, named_without_argument, stored_as, values_to_bind
from hlo2onnx.sources.partition import plain_function
from hlo2onnx.sources.prune_branches import without_untaken_branches
from hlo2onnx.sources.signature import PyTree, with_channels_second
from hlo2onnx.sources.specialize import specialized
from hlo2onnx.sources.symbolic_arguments import Dynamic


@dataclass(frozen=True)
class LoadOptions:
    """Options of the loading of a program; `hlo2onnx.translate` describes them."""

    function: str | None = None
    dynamic: Dynamic | None = None
    specialize: Mapping[str, int] | None = None
    bind: Bind = ()
    inputs_as_nchw: Sequence[str] = ()
    outputs_as_nchw: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.function, str | None):
            raise UsageError(f"function={self.function!r} is not a text")


def prepared(
    source: object,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    parameters: Sequence[str],
    how: LoadOptions,
    options: Options,
) -> Source:
    """Loads a program, binds its weights, fixes its sizes and sets its layouts.

    Args:
        source: The program, as `hlo2onnx.translate` takes it.
        args, kwargs: Example arguments of a function.
        parameters: Names of the function's parameters.
        how: The options of the loading.
        options: The other options of the translation.

    Raises:
        LoadError: The source is not a readable program.
        UsageError: An option does not fit the program.
    """
    loaded = load(source, args, kwargs, how.function, how.dynamic)
    loaded = without_untaken_branches(loaded, options.callbacks)
    if callable(source) and not isinstance(source, jax.stages.Wrapped):
        _, module = plain_function(source)
        if module is not None:
            loaded = named_without_argument(bound(loaded, {0: module}))
    to_bind = values_to_bind(how.bind, parameters, args, kwargs)
    if to_bind:
        loaded = bound(loaded, to_bind, parameters[: len(args)])
    if options.weights_dtype is not None:
        loaded = stored_as(loaded, STORAGE_TYPES[options.weights_dtype])
    if how.specialize:
        loaded = specialized(loaded, how.specialize)
    if how.inputs_as_nchw or how.outputs_as_nchw:
        moved = with_channels_second(loaded.signature, how.inputs_as_nchw, how.outputs_as_nchw)
        loaded = replace(loaded, signature=moved)
    return loaded
