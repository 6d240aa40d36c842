"""Weights that a callable holds: they become its first argument, with their paths as names.

The callables are `functools.partial`s, bound flax.linen modules and their methods, keras models,
and modules behind a transformation such as `jax.vmap` or `equinox.filter_vmap`. None of them takes
the arrays as arguments. So the function is traced, and the arrays are found among the constants of
the trace.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.tree_util import PyTreeDef

from hlo2onnx.frontend.signature import PyTree, key_name

Arrays = dict[str, object]
"""Arrays by their paths, such as "params/Dense_0/kernel"."""


def held_arrays(function: Callable[..., object]) -> Arrays:
    """The arrays that a callable holds; empty if it is none of the above."""
    if isinstance(function, functools.partial):
        return _of_partial(function)
    if _is_of(function, "keras"):
        return {str(each.path): each.value for each in getattr(function, "variables", ())}
    if _is_of(function, "flax.linen"):
        return paths(function.variables) if getattr(function, "scope", None) else {}  # type: ignore[attr-defined]
    owner = getattr(function, "__self__", None)
    if inspect.ismethod(function) and not inspect.isclass(owner):
        return held_arrays(owner) or paths(owner)  # type: ignore[arg-type]
    inner = _transformed(function)
    return {} if inner is None else held_arrays(inner) or paths(inner)


def _transformed(function: Callable[..., object]) -> Callable[..., object] | None:
    """The callable that a transformation was applied to."""
    inner = getattr(function, "__wrapped__", None)
    module = str(getattr(function, "__module__", None))  # of functions made by exec it is None
    if inner is None and inspect.isfunction(function) and module.startswith("jax."):
        # jax.vmap cannot copy the attributes of all callables.
        inner = inspect.getclosurevars(function).nonlocals.get("fun")
    return inner if callable(inner) else None


def with_jax_arrays(function: Callable[..., object]) -> Callable[..., object]:
    """The function itself; a partial with numpy arrays with JAX's, which a trace keeps as they
    are."""
    if not isinstance(function, functools.partial):
        return function
    args, keywords = jax.tree.map(
        lambda leaf: jax.numpy.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf,
        (function.args, function.keywords),
    )
    return functools.partial(function.func, *args, **keywords)


def with_weights(
    call: Callable[..., object],
    arrays: Arrays,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
) -> tuple[Callable[..., object], Arrays]:
    """A function that takes some of these arrays as its first argument, and the arrays it takes.

    Args:
        call: The function, of arrays alone.
        arrays: The arrays that it holds. Those that it does not read are left out.
        args, kwargs: Its example arguments.
    """
    traced = jax.jit(call).trace(*args, **kwargs)
    closed, out_tree = traced.jaxpr, jax.tree_util.tree_structure(traced.out_info)
    known = {id(array): path for path, array in reversed(arrays.items())}
    names = [known.get(id(constant)) for constant in closed.consts]

    def called(weights: Arrays, *args: PyTree, **kwargs: PyTree) -> PyTree:
        constants = [
            constant if name is None else weights[name]
            for name, constant in zip(names, closed.consts, strict=True)
        ]
        results = jaxpr_as_fun(closed.replace(consts=constants))(*jax.tree.leaves((args, kwargs)))
        return jax.tree_util.tree_unflatten(out_tree, results)

    functools.update_wrapper(called, call, updated=())
    weights = inspect.Parameter("weights", inspect.Parameter.POSITIONAL_ONLY)
    others = signature_of_call(call)
    if others is not None:
        called.__signature__ = others.replace(  # type: ignore[attr-defined]
            parameters=[weights, *others.parameters.values()]
        )
    return called, {name: arrays[name] for name in names if name is not None}


def signature_of_call(function: Callable[..., object]) -> inspect.Signature | None:
    """The signature of a callable with its own names of parameters, if it is known.

    A keras layer has those of its method `call`, and `apply` of a flax.linen module those of the
    module's `__call__`.
    """
    own: Callable[..., object] | None = None
    if isinstance(function, functools.partial):
        whole = signature_of_call(function.func)
        rest = [] if whole is None else list(whole.parameters.values())[len(function.args) :]
        left = [each for each in rest if each.name not in function.keywords]
        return None if whole is None else whole.replace(parameters=left)
    if _is_of(function, "keras"):
        own = getattr(function, "call", None)
    elif not inspect.ismethod(function) and not hasattr(function, "__signature__"):
        inner = _transformed(function)
        if inner is not None:
            return signature_of_call(inner)
    try:
        known = inspect.signature(own or function)
        owner = getattr(function, "__self__", None)
        if _is_of(owner, "flax.linen") and getattr(function, "__name__", "") == "apply":
            called = inspect.signature(owner.__call__)  # type: ignore[union-attr,operator]
            first = next(iter(known.parameters.values()))
            known = known.replace(parameters=[first, *called.parameters.values()])
    except (TypeError, ValueError):  # of C functions
        return None
    return known


def _of_partial(function: functools.partial[object]) -> Arrays:
    names = signature_of_call(function.func)
    try:
        given = {} if names is None else dict(names.bind_partial(*function.args).arguments)
    except TypeError:
        given = {}
    found = held_arrays(function.func)
    return found | paths(given | function.keywords)


def paths(tree: PyTree) -> Arrays:
    """The arrays of a tree by their paths."""
    found = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if is_array(leaf):
            found["/".join(map(key_name, path))] = leaf
    return found


def _is_of(function: object, package: str) -> bool:
    """Whether a class of a package is among those of an object."""
    return any(
        f"{each.__module__}.".startswith(f"{package}.")  # the module may be None
        for each in type(function).__mro__
    )


def partitioned(tree: PyTree) -> tuple[PyTree, PyTree]:
    """A tree of the arrays and one of the other leaves, with numbers; None replaces leaves."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    return _halves(structure, [(leaf, is_array(leaf)) for leaf in leaves])


def partitioned_within(arguments: PyTree) -> tuple[PyTree, PyTree]:
    """The same for `(args, kwargs)` of `jax.jit`.

    Numbers are among the arrays. So are arguments that are single leaves: JAX refuses them if they
    are not arrays. Otherwise, they would silently become part of the program.
    """
    pairs, structure = jax.tree_util.tree_flatten_with_path(arguments)
    kinds = [
        (leaf, len(path) == 2 or is_array(leaf) or isinstance(leaf, bool | int | float | complex))
        for path, leaf in pairs
    ]
    return _halves(structure, kinds)


def _halves(structure: PyTreeDef, pairs: Sequence[tuple[object, bool]]) -> tuple[PyTree, PyTree]:
    arrays = structure.unflatten([leaf if is_array else None for leaf, is_array in pairs])
    objects = structure.unflatten([None if is_array else leaf for leaf, is_array in pairs])
    return arrays, objects


def combined(arrays: PyTree, objects: PyTree) -> PyTree:
    """The reverse of `partitioned`."""
    return jax.tree_util.tree_map(
        lambda array, other: array if other is None else other,
        arrays,
        objects,
        is_leaf=lambda leaf: leaf is None,
    )


def plain_function(
    function: Callable[..., object],
) -> tuple[Callable[..., object], PyTree | None]:
    """The plain function of a callable, and its module; None if the callable has no arrays.

    A module is a pytree that can be called, as those of equinox and flax.nnx. It is the first
    argument of the plain function.
    """
    function = unfiltered(function)
    leaves = jax.tree_util.tree_leaves(function)
    if not any(is_array(leaf) for leaf in leaves):
        return function, None
    method = type(function).__call__
    return (method, function) if inspect.isfunction(method) else (function, None)


def is_filtered(function: Callable[..., object]) -> bool:
    """Whether a function is one of `equinox.filter_jit`. Numbers are static arguments of these."""
    return unfiltered(function) is not function


def unfiltered(function: Callable[..., object]) -> Callable[..., object]:
    """The function in one of `equinox.filter_jit`, or the function itself."""
    is_equinox = type(function).__module__ == "equinox._jit"
    return getattr(function, "__wrapped__", function) if is_equinox else function


def is_array(leaf: object) -> bool:
    """Whether a leaf is an array, or can be made one by JAX."""
    return (hasattr(leaf, "shape") and hasattr(leaf, "dtype")) or hasattr(leaf, "__jax_array__")
