"""Arguments that hold more than arrays: modules, with their functions and settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax


def partitioned(tree: Any) -> tuple[Any, Any]:
    """The tree with its arrays alone, and the one with everything else, Python's numbers among it;
    None takes the others' places."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    return _halves(structure, [(leaf, _is_array(leaf)) for leaf in leaves])


def partitioned_within(arguments: Any) -> tuple[Any, Any]:
    """The same of `(args, kwargs)`, with numbers among the arrays, as for `jax.jit`. So is an
    argument that is no array as a whole, for JAX to refuse it: it would be frozen unasked."""
    pairs, structure = jax.tree_util.tree_flatten_with_path(arguments)
    kinds = [
        (leaf, len(path) == 2 or _is_array(leaf) or isinstance(leaf, bool | int | float | complex))
        for path, leaf in pairs
    ]
    return _halves(structure, kinds)


def _halves(structure: Any, pairs: Sequence[tuple[Any, bool]]) -> tuple[Any, Any]:
    arrays = structure.unflatten([leaf if is_array else None for leaf, is_array in pairs])
    objects = structure.unflatten([None if is_array else leaf for leaf, is_array in pairs])
    return arrays, objects


def combined(arrays: Any, objects: Any) -> Any:
    """What `partitioned` took apart."""
    return jax.tree_util.tree_map(
        lambda array, other: array if other is None else other,
        arrays,
        objects,
        is_leaf=lambda leaf: leaf is None,
    )


def plain_function(function: Callable[..., Any]) -> tuple[Callable[..., Any], Any]:
    """What a callable does as a plain function, and the module it is a method of, which then is
    its first argument; None for one that holds no arrays.

    Modules are pytrees that can be called, as those of equinox and flax.nnx.
    """
    if is_filtered(function):
        function = function.__wrapped__  # type: ignore[attr-defined]
    leaves = jax.tree_util.tree_leaves(function)
    if not any(_is_array(leaf) for leaf in leaves):
        return function, None
    method = type(function).__call__
    return (method, function) if inspect.isfunction(method) else (function, None)


def is_filtered(function: Any) -> bool:
    """Whether a function is one of `equinox.filter_jit`, which takes numbers for settings."""
    return type(function).__module__ == "equinox._jit" and hasattr(function, "__wrapped__")


def _is_array(leaf: Any) -> bool:
    return (hasattr(leaf, "shape") and hasattr(leaf, "dtype")) or hasattr(leaf, "__jax_array__")
