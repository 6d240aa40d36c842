"""Programs from JAX in this process: `jax.stages.Lowered` and functions.

Only this file reads private attributes of JAX: which arguments jit pruned, which constants became
arguments, the platforms, the static arguments, and the constraints of symbolic dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import jax

from hlo2onnx.errors import LoadError, SignatureError, UsageError
from hlo2onnx.frontend.advice import advice_for, narrowed
from hlo2onnx.frontend.captured import (
    combined,
    held_arrays,
    is_filtered,
    partitioned,
    partitioned_within,
    plain_function,
    signature_of_call,
    unfiltered,
    with_jax_arrays,
    with_weights,
)
from hlo2onnx.frontend.mlir.attributes import text_of
from hlo2onnx.frontend.ports import positional_names
from hlo2onnx.frontend.signature import (
    NO_STATICS,
    Aval,
    PyTree,
    Statics,
    own_inputs,
    with_inputs_named,
    with_trees,
)
from hlo2onnx.frontend.source import Source, bind_added_arguments, find_function
from hlo2onnx.frontend.specialize import symbols_of
from hlo2onnx.frontend.symbolic_arguments import symbolic_arguments, with_sizes
from hlo2onnx.options import Dynamic


def from_lowered(lowered: jax.stages.Lowered, statics: Statics = NO_STATICS) -> Source:
    """Loads a `jax.stages.Lowered`.

    Raises:
        LoadError: The lowering is not StableHLO.
    """
    module = lowered.compiler_ir("stablehlo")
    if module is None:
        raise LoadError("this Lowered holds no StableHLO module")
    name = text_of(module.operation, "sym_name")
    lowering = lowered._lowering
    constants = lowering.const_args
    module = bind_added_arguments(module, lowering._platforms, constants)
    kept = [index - len(constants) for index in lowering.compile_args["kept_var_idx"]]
    signature = with_trees(
        find_function(module.operation, "main", name),
        lowered.in_tree,
        jax.tree_util.tree_leaves(lowered.args_info),
        [index for index in kept if index >= 0],
        lowered.out_tree,
        lowering.compile_args["global_out_avals"],
        statics,
    )
    return Source(module, "main", signature, name)


def from_function(
    function: Callable[..., object],
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    dynamic: Dynamic | None = None,
    constraints: Sequence[str] = (),
) -> Source:
    """Lowers a jitted or plain function for example arguments, and loads the result.

    Raises:
        LoadError: The function's `lower` gives no `jax.stages.Lowered`.
        SignatureError: The example arguments do not fit the function's parameters.
        UsageError: The dynamic dimensions or the constraints do not fit the arguments, or JAX
            cannot compare dimensions without more constraints.
    """
    statics = _statics(function, args, kwargs)
    fixed: list[int | str] = [*statics.positional, *statics.keywords]
    arguments = symbolic_arguments(function, args, kwargs, dynamic, constraints, fixed)
    names = positional_names(function)
    try:
        loaded = _from_function(function, *arguments, statics)
    except SignatureError:
        raise
    except Exception as error:
        if isinstance(error, TypeError) and (misfit := _misfit(function, args, kwargs)):
            raise SignatureError(
                f"the example arguments do not fit the function: {misfit}\n"
                "  next   pass them after the function, as in translate(f, x), or lower the"
                " function: jax.jit(f).lower(x)"
            ) from error
        if advice := advice_for(error, arguments, names):
            raise UsageError(advice) from error
        raise
    notes = narrowed(arguments, names)
    return replace(loaded, notes=(*loaded.notes, *notes))


def _misfit(
    function: Callable[..., object], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> str:
    """Why a function does not take these arguments; "" if it does, or if that is not known."""
    signature = signature_of_call(getattr(function, "__wrapped__", function))
    if signature is None:
        return ""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return ""


def _from_function(
    function: Callable[..., object],
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    statics: Statics,
) -> Source:
    loaded = _of_arguments(function, args, kwargs, statics)
    if not symbols_of(loaded.signature):
        return loaded

    def at_sizes(sizes: Mapping[str, int]) -> Source:
        sized, named = with_sizes((args, kwargs), sizes)
        return _of_arguments(function, sized, named, statics)

    return replace(loaded, at_sizes=at_sizes)


def _of_arguments(
    function: Callable[..., object],
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    statics: Statics,
) -> Source:
    """Lowers and loads a function.

    A module with weights (`partition.plain_function`) is the first argument of its function.
    """
    if isinstance(function, jax.stages.Wrapped):
        loaded = _lowered(function, args, kwargs, statics)
        own = signature_of_call(getattr(function, "__wrapped__", function))
        parameters = [] if own is None else list(own.parameters)
        names = own_inputs([port.name for port in loaded.signature.inputs], parameters)
        return replace(loaded, signature=with_inputs_named(loaded.signature, names))
    parts = partitioned if is_filtered(function) else partitioned_within
    (args, kwargs), (others, named) = parts((tuple(args), dict(kwargs)))
    function = with_jax_arrays(unfiltered(function))
    if arrays := held_arrays(function):
        call = _named(function, _objects((others, named)))
        with_arrays, weights = with_weights(call, arrays, args, kwargs)
        if weights:
            statics = Statics(objects=_objects((({}, *others), named)))
            lowered = _lowered(jax.jit(with_arrays), (weights, *args), kwargs, statics)
            return replace(lowered, weights=weights)
    function, module = plain_function(function)
    if module is not None:
        weights, settings = partitioned(module)
        args, others = (weights, *args), (settings, *others)
    objects = _objects((others, named))
    loaded = _lowered(jax.jit(_named(function, objects)), args, kwargs, Statics(objects=objects))
    return replace(loaded, weights=module)


def _objects(objects: PyTree) -> PyTree:
    """The same, or None if there are none."""
    return objects if jax.tree_util.tree_leaves(objects) else None


def _lowered(
    jitted: jax.stages.Wrapped,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    statics: Statics,
) -> Source:
    try:
        lowered = unwrapped(jitted.lower(*args, **kwargs))
    except RuntimeError as error:
        if "std::bad_cast" not in str(error):
            raise
        raise LoadError(_SYMBOLIC_CALLBACK) from error
    if lowered is None:
        raise LoadError(f"lowering a {type(jitted).__name__} gives no jax.stages.Lowered")
    return from_lowered(lowered, statics)


_SYMBOLIC_CALLBACK = (
    "JAX does not lower Python callbacks whose results have symbolic shapes\n"
    "  next   lower the function for static shapes, or without callbacks: equinox's checks make"
    " none where the environment variable EQX_ON_ERROR is off, or nan"
)
"""The meaning of JAX's error "std::bad_cast"."""


def constraints_of(avals: Iterable[Aval]) -> tuple[str, ...]:
    """The constraints of symbolic dimensions, as the user wrote them: "a >= b"."""
    dims = [dim for aval in avals for dim in aval.shape if not isinstance(dim, int)]
    scopes = {id(scope): scope for scope in (getattr(dim, "scope", None) for dim in dims)}
    found = [
        str(item.debug_str)
        for scope in scopes.values()
        for item in getattr(scope, "_explicit_constraints", ())
    ]
    return tuple(dict.fromkeys(found))


def unwrapped(lowered: object) -> jax.stages.Lowered | None:
    """The `jax.stages.Lowered` in the result of `.lower()` of a jit; None if there is none.

    flax.nnx and equinox wrap it, in an attribute `lowered`.
    """
    if isinstance(lowered, jax.stages.Lowered):
        return lowered
    inner = getattr(lowered, "lowered", None)
    return inner if isinstance(inner, jax.stages.Lowered) else None


def _named(function: Callable[..., object], objects: PyTree | None) -> Callable[..., object]:
    """A callable as a function with the same parameters, which adds the objects to its arguments.

    jit needs a hash, which an `equinox.Module` with weights does not have.
    """

    def call(*args: PyTree, **kwargs: PyTree) -> object:
        if objects is not None:
            args, kwargs = combined((args, kwargs), objects)
        return function(*args, **kwargs)

    call.__doc__ = function.__doc__
    call.__module__ = getattr(function, "__module__", None) or call.__module__
    signature = signature_of_call(function)
    if signature is not None:
        call.__signature__ = signature  # type: ignore[attr-defined]
    name = getattr(function, "__name__", None)  # of some wrappers it is None
    call.__name__ = name or type(function).__name__
    return call


_JITTED = type(jax.jit(lambda: None))


def _statics(
    jitted: Callable[..., object], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> Statics:
    if not isinstance(jitted, _JITTED):
        return NO_STATICS
    info, count = jitted._jit_info, len(args)
    positions = [index % count for index in info.static_argnums if -count <= index < count]
    return Statics(
        count,
        {index: args[index] for index in positions},
        {name: kwargs[name] for name in info.static_argnames if name in kwargs},
    )
